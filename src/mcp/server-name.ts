// By which name policies see a server of MCP that was given none, and what distinguishes two servers of one name: both
// from the command that starts it.
// Invariant: two commands that start different programs differ in `startedAs`, whatever their last word; a new version
// of a package is the same server.
// Failure: none. Where no name is found it is the command's first word.
import { existsSync } from 'node:fs';
import path from 'node:path';

const words = (text: string) => new Set(text.split(' '));
/** The words that run a server: none is its name. */
const LAUNCHERS = words(
  'npx bunx pnpx uvx uv pipx poetry npm pnpm yarn node bun deno tsx ts-node python python3 py docker podman nerdctl run exec dlx sh bash zsh cmd env java ruby php dotnet go',
);
/** They reach a server elsewhere, which their argument names. */
const BRIDGES = words('mcp-remote mcp-proxy supergateway');
/** Options of launchers that are followed by a value. */
const VALUED = words(
  '-e --env --env-file -v --volume --mount -p --publish --name --network --net -w --workdir -u --user -l --label --platform --entrypoint --add-host --directory --project --from --with --python --package -r --require --import --loader',
);
/** Files and folders that programs of any kind have. */
const COMMON = words(
  'index main server app cli start run mod mcp __main__ mcp-server mcp_server dist build src lib bin out target release debug',
);

/** The program's, without its folder, scope, version and ending; for a common one that of its folder. */
export function nameOf(command: readonly string[]): string {
  const named = namedBy(command);
  if (named === undefined) return bare(command[0]!);
  const { word, rest, folder } = named;
  const name = bare(word);
  const remote = BRIDGES.has(name) ? rest.find((other) => /^https?:/.test(other) && URL.canParse(other)) : undefined;
  if (remote !== undefined) return new URL(remote).hostname;
  const isFile = /\.\w+$/.test(withoutVersion(word)) || word.includes(path.sep);
  if (!COMMON.has(name) || !isFile || /^@[^/]+\/[^/]+$/.test(word)) return name;
  const folders = path
    .dirname(path.resolve(folder ?? '.', word))
    .split(path.sep)
    .reverse();
  return folders.find((one) => one !== '' && !COMMON.has(one)) ?? name;
}

/** Without versions, with files by their whole path: the same program is started from any folder. */
export function startedAs(command: readonly string[]): string {
  return command
    .map((word) => (!word.startsWith('-') && existsSync(word) ? path.resolve(word) : withoutVersion(word)))
    .join('\0');
}

type CommandWord = { word: string; rest: readonly string[]; folder: string | undefined };

function namedBy(command: readonly string[]): CommandWord | undefined {
  let folder: string | undefined;
  for (let i = 0; i < command.length; i++) {
    const word = command[i]!;
    if (/\s/.test(word)) return namedBy(word.split(/&&|;/).at(-1)!.trim().split(/\s+/));
    if (VALUED.has(word)) {
      if (word === '--directory' || word === '--project') folder = command[i + 1];
      i++;
    } else if (!/^-|^\/[a-z]$|^[A-Z_][A-Z0-9_]*=/i.test(word) && !isLauncher(word, command[i + 1]))
      return { word, rest: command.slice(i + 1), folder };
  }
  return undefined;
}

/** `uv tool run` runs a tool; a `tool` that is run is one. */
function isLauncher(word: string, next: string | undefined): boolean {
  return LAUNCHERS.has(bare(word).toLowerCase()) || (word === 'tool' && next === 'run');
}

function bare(word: string): string {
  const name = path.basename(withoutVersion(word)).replace(/(?<=.)[@:][^@:]*$/, '');
  return name.replace(/\.(?:[cm]?[jt]sx?|py|sh|exe|cmd|jar|rb|php)$/i, '') || word;
}

/** `pkg@1.2`, `image:1.2`, `image@sha256:…`; not the port or the host of an address. */
function withoutVersion(word: string): string {
  return word.replace(/(?<=.)(?:@(?:[\^~]?v?\d[^/@]*|latest|next|sha256:\w+)|:(?:v?\d+\.[\w.-]+|latest))$/, '');
}
