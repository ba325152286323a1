// The forms of keys that issuers give out: one table for the scanner's candidate and for the search that settles it
// (find-secrets.ts). Facts as issuers document them and as the public rules of secret scanners (gitleaks, GitHub secret
// scanning) list them, read on 2026-11-26; publishable keys (`pk_live_`) are no secrets.
// Invariant: a form is a fixed beginning and then characters of one alphabet, so that a try that fails reads a bounded
// number of characters.

/** `head`: as written. `tail`: an expression without nested or adjacent unbounded repeats. */
type IssuedForm = { issuer: string; head: string; tail: string };

const ALNUM = '[A-Za-z0-9]';
const URL_SAFE = '[A-Za-z0-9_-]';

const ISSUED_FORMS: readonly IssuedForm[] = [
  { issuer: 'Age', head: 'AGE-PLUGIN-', tail: '[A-Z0-9]{2,16}-1[A-Z0-9]{20,}' },
  { issuer: 'Airtable', head: 'pat', tail: `${ALNUM}{14}\\.[0-9a-f]{64}` },
  { issuer: 'Atlassian', head: 'ATATT3', tail: '[A-Za-z0-9_=-]{180,}' },
  { issuer: 'AWS access key', head: 'AKIA', tail: '[A-Z0-9]{16}' },
  { issuer: 'AWS session key', head: 'ASIA', tail: '[A-Z0-9]{16}' },
  { issuer: 'Databricks', head: 'dapi', tail: '[0-9a-f]{32}(?:-\\d)?' },
  { issuer: 'DigitalOcean', head: 'dop_v1_', tail: '[0-9a-f]{64}' },
  { issuer: 'DigitalOcean', head: 'doo_v1_', tail: '[0-9a-f]{64}' },
  { issuer: 'DigitalOcean', head: 'dor_v1_', tail: '[0-9a-f]{64}' },
  { issuer: 'Doppler', head: 'dp.pt.', tail: `${ALNUM}{40,44}` },
  { issuer: 'Doppler', head: 'dp.st.', tail: '[A-Za-z0-9_.-]{40,64}' },
  { issuer: 'Dynatrace', head: 'dt0c01.', tail: `${ALNUM}{24}\\.${ALNUM}{64}` },
  { issuer: 'Figma', head: 'figd_', tail: `${URL_SAFE}{40,}` },
  { issuer: 'Gatehouse', head: 'gth_', tail: `${ALNUM}{40}` },
  ...['ghp', 'gho', 'ghu', 'ghs', 'ghr'].map((kind) => ({
    issuer: 'GitHub',
    head: `${kind}_`,
    tail: `${ALNUM}{36,}`,
  })),
  { issuer: 'GitHub', head: 'github_pat_', tail: '\\w{22,}' },
  ...['pat', 'rt', 'dt', 'ptt', 'ft', 'soat', 'cbt', 'agent', 'imt', 'oas'].map((kind) => ({
    issuer: 'GitLab',
    head: `gl${kind}-`,
    tail: `${URL_SAFE}{20,}`,
  })),
  { issuer: 'Google API', head: 'AIza', tail: `${URL_SAFE}{35}` },
  { issuer: 'Google OAuth', head: 'GOCSPX-', tail: `${URL_SAFE}{28}` },
  { issuer: 'Google OAuth', head: 'ya29.', tail: `${URL_SAFE}{50,}` },
  { issuer: 'Grafana', head: 'glsa_', tail: `${ALNUM}{32}_[0-9a-f]{8}` },
  { issuer: 'Grafana Cloud', head: 'glc_', tail: '[A-Za-z0-9+/=]{32,}' },
  { issuer: 'Groq', head: 'gsk_', tail: `${ALNUM}{40,64}` },
  { issuer: 'HashiCorp Vault', head: 'hvs.', tail: `${URL_SAFE}{24,}` },
  { issuer: 'HashiCorp Vault', head: 'hvb.', tail: `${URL_SAFE}{24,}` },
  { issuer: 'Hugging Face', head: 'hf_', tail: `${ALNUM}{30,64}` },
  { issuer: 'LangSmith', head: 'lsv2_pt_', tail: '[0-9a-f]{32}_[0-9a-f]{10}' },
  { issuer: 'LangSmith', head: 'lsv2_sk_', tail: '[0-9a-f]{32}_[0-9a-f]{10}' },
  { issuer: 'Linear', head: 'lin_api_', tail: `${ALNUM}{40}` },
  { issuer: 'New Relic', head: 'NRAK-', tail: '[A-Z0-9]{27}' },
  { issuer: 'Notion', head: 'ntn_', tail: `${ALNUM}{40,}` },
  { issuer: 'npm', head: 'npm_', tail: `${ALNUM}{36}` },
  { issuer: 'NVIDIA', head: 'nvapi-', tail: `${URL_SAFE}{60,}` },
  // OpenAI, Anthropic, OpenRouter, Langfuse and many others; what is only a name is left out by `isKeyAfterSk`.
  { issuer: 'OpenAI and others', head: 'sk-', tail: `${URL_SAFE}{20,}(?:\\.${URL_SAFE}{8,})?` },
  { issuer: 'Perplexity', head: 'pplx-', tail: `${ALNUM}{40,}` },
  { issuer: 'Pinecone', head: 'pcsk_', tail: `${ALNUM}{5,8}_${ALNUM}{40,}` },
  { issuer: 'PlanetScale', head: 'pscale_tkn_', tail: '[A-Za-z0-9_.-]{32,64}' },
  { issuer: 'Postman', head: 'PMAK-', tail: '[0-9a-f]{24}-[0-9a-f]{34}' },
  { issuer: 'Pulumi', head: 'pul-', tail: '[0-9a-f]{40}' },
  { issuer: 'PyPI', head: 'pypi-AgE', tail: `${URL_SAFE}{50,}` },
  { issuer: 'Replicate', head: 'r8_', tail: `${ALNUM}{37,40}` },
  { issuer: 'RubyGems', head: 'rubygems_', tail: '[0-9a-f]{48}' },
  { issuer: 'SendGrid', head: 'SG.', tail: `${URL_SAFE}{16,64}\\.${URL_SAFE}{16,64}` },
  { issuer: 'Sentry', head: 'sntrys_', tail: '[A-Za-z0-9+/=_-]{40,}' },
  ...['at', 'ca', 'pa', 'ss'].map((kind) => ({ issuer: 'Shopify', head: `shp${kind}_`, tail: '[0-9A-Fa-f]{32}' })),
  { issuer: 'Slack app', head: 'xapp-', tail: '\\d-[A-Z0-9]{8,16}-\\d{8,16}-[0-9a-f]{64}' },
  ...['a', 'b', 'e', 'o', 'p', 'r', 's'].map((kind) => ({
    issuer: 'Slack',
    head: `xox${kind}-`,
    tail: '[A-Za-z0-9-]{10,}',
  })),
  { issuer: 'Square', head: 'sq0csp-', tail: `${URL_SAFE}{43}` },
  { issuer: 'Standard Webhooks', head: 'whsec_', tail: '[A-Za-z0-9+/=]{24,100}' },
  ...['sk_live', 'sk_test', 'rk_live', 'rk_test'].map((kind) => ({
    issuer: 'Stripe',
    head: `${kind}_`,
    tail: `${ALNUM}{16,}`,
  })),
  { issuer: 'Supabase', head: 'sb_secret_', tail: `${URL_SAFE}{20,}` },
  { issuer: 'Supabase', head: 'sbp_', tail: '[0-9a-f]{40}' },
  { issuer: 'Tavily', head: 'tvly-', tail: '[A-Za-z0-9-]{32,}' },
  { issuer: 'xAI', head: 'xai-', tail: `${ALNUM}{60,}` },
];

/** The beginnings, with the fewest characters that follow each. */
export const ISSUED_HEADS = ISSUED_FORMS.map(({ head, tail }) => ({
  head,
  least: Number(/\{(\d+)/.exec(tail)?.[1] ?? 1),
}));

const HEADS = ISSUED_FORMS.map(({ head }) => head.replaceAll('.', '\\.'));

/** The whole of a key, as an expression of JavaScript. The last two: a webhook's address and a bot's token. */
export const ISSUED_KEY = [
  ...ISSUED_FORMS.map(({ tail }, i) => HEADS[i] + tail),
  '(?<=hooks\\.slack\\.com/services/)T[A-Z0-9]{8,12}/B[A-Z0-9]{8,12}/[A-Za-z0-9]{20,}', // Slack
  '\\d{8,10}:AA[A-Za-z0-9_-]{33}', // Telegram
].join('|');

/** The scanner's pattern, in RE2's syntax: a beginning, with the fewest characters that may follow. */
export const ISSUED_CANDIDATE = `(?:${HEADS.join('|')})[A-Za-z0-9_-]|hooks\\.slack\\.com/services/T|[0-9]{8}:AA`;

/** The names of keys whose form says nothing, without regard to case: words with or without a separator. */
export const KEY_NAMES: readonly (readonly string[])[] = [
  ...['api', 'subscription', 'signing', 'encryption', 'account', 'master'].map((word) => [word, 'key']),
  ...[
    ['secret', 'key'],
    ['secret', 'access', 'key'],
  ],
  ...['client', 'api', 'app', 'consumer', 'signing', 'webhook', 'shared'].map((word) => [word, 'secret']),
  ...['access', 'auth', 'api', 'bearer', 'refresh', 'session', 'security', 'private', 'personal', 'deploy'].map(
    (word) => [word, 'token'],
  ),
  ...['oauth', 'bot'].map((word) => [word, 'token']),
];

/** The same in the syntax of both. */
export const KEY_NAME = `(?:${KEY_NAMES.map((words) => words.join('[_ .-]?')).join('|')})`;
