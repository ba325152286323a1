// Every bound that is not a setting, with its reason; relations between them are asserted when this file loads.
import assert from 'node:assert';

const KiB = 1024;
const MiB = 1024 * KiB;

/** JSON nesting that a body may have. */
export const JSON_DEPTH_MAX = 64;
/**
 * Raw events waiting in a front for Redis. 64 MiB is 100 ms of the fastest ingestion measured (600 MB/s); beyond it
 * Redis is in trouble and 503 is kinder.
 */
export const UNACKED_BYTES_MAX = 64 * MiB;
/**
 * Submissions that a front has in hand, from their body to their answer: a quarter of a second of the fastest single
 * events measured (60,000/s), and 50 MB at 3 KB each beside the bodies, which have a bound of their own.
 */
export const SUBMISSIONS_IN_FLIGHT_MAX = 16_384;
/**
 * Appends in flight per partition: one travels while the next one fills. More only makes entries smaller
 * (bench/README.md).
 */
export const APPENDS_IN_FLIGHT_MAX = 2;
/**
 * Fewer bytes than this wait for the answer to what is on its way, this long at most. On one machine an answer takes a
 * few tenths of a millisecond; a larger write is worth a wake-up of its own.
 */
export const APPEND_BYTES_AT_ONCE = 64 * KiB;
export const APPEND_WAIT_MS = 1;
/**
 * Bytes of rows in one stream entry; an event larger than that goes alone. An entry costs a sync of its own where every
 * answer waits for one (`always`), and Redis and a front work a tenth less on four times as much at once.
 */
export const ENTRY_BYTES_MAX = MiB;
/**
 * Between two notes of who was seen in a partition. Heartbeats are tens of seconds, and a write with each entry costs
 * as much as the entry.
 */
export const LAST_SEEN_MS = 200;
/**
 * For so long a front holds permits of a rate limit in advance, and so much later at the most it gives back what is
 * left. Ten calls a second and counter cost nothing that shows; a permit that is missing elsewhere for longer would be
 * missed.
 */
export const QUOTA_LEASE_MS = 100;
export const QUOTA_RETURN_MS = 25;
/** For fewer a second trip, to give them back, costs more than the trips that they spare. */
export const LEASED_PERMITS_MIN = 8;
/** Counters that a front remembers, to hold permits of those that are in use: some 500 bytes each. */
export const COUNTERS_KNOWN_MAX = 10_000;
/**
 * The memory of a sequence: values of `same` in a scope, each some 200 bytes, and scopes of a policy. Those beyond
 * count as having occurred.
 */
export const SEQUENCE_VALUES_MAX = 64;
export const SEQUENCE_SCOPES_MAX = 10_000;
/** Active sequences of an account: an event may be a step of each, and is then asked about in one call. */
export const SEQUENCES_ACTIVE_MAX = 20;
/** A process that makes a memory known and says nothing for so long has died; as sequences.lua has it. */
export const SEQUENCE_LEASE_MS = 10_000;
/** A change of policies, agents or keys is in force on every front within this (registry/cache/cache.ts). */
export const IN_FORCE_MS = 1_000;
/**
 * From when a submission is taken in hand, with the policies by which it is judged, to its append: what is later is
 * refused. It may wait for the judging thread (10 s), for checks outside (7 s) and for Redis; callers wait for less.
 */
export const APPENDED_MS_MAX = 20_000;
/** By so much the policies by which an event was judged may be older than its arrival. */
export const JUDGED_BEFORE_MS = IN_FORCE_MS + APPENDED_MS_MAX;
/** How often a front says since when it has submissions in hand. */
export const IN_HAND_EVERY_MS = 250;
/**
 * A front that says nothing for so long has none that is still appended: its last word is a command old, and an append
 * waits for one that is under way.
 */
export const IN_HAND_SILENT_MS = APPENDED_MS_MAX + 12_000;
/**
 * Bodies held by a front, from the first byte to the answer: 16 of the largest batches, or 2,000 of the largest other
 * bodies.
 */
export const BODY_BYTES_HELD_MAX = 128 * MiB;
/** How often a front checks for requests that will never be answered. */
export const REQUEST_SWEEP_MS = 1_000;
/**
 * A process whose loop has not turned for so long is ended and started again. Ten times what the worst request that is
 * known to pass costs, and longer than any caller waits.
 */
export const LOOP_STILL_MS_MAX = 15_000;
/** A client that takes nothing of a body that comes in parts for so long is cut off (dashboard streams, exports). */
export const PART_TAKEN_MS_MAX = 10_000;
/**
 * Answers that come in parts, at once in a process: an export holds a buffer of up to a few MB and one query at a time,
 * a stream LIVE_UNREAD_BYTES_MAX and a small query twice a second.
 */
export const EXPORTS_MAX = 32;
export const STREAMS_MAX = 96;
/** One account has so many of each at most; fewer where others hold some (http/answers/body-slots.ts). */
export const LASTING_OF_ACCOUNT_MAX = 8;
/** Rows of an export that are read at once: a few MB of usual events, and 500 queries for a million. */
export const EXPORT_ROWS_AT_ONCE = 2_000;
/**
 * Bytes of one page of a list: 16 of the largest events. An answer is made in memory, some times over, and what reads
 * it holds it whole as well; a page that would have more ends early.
 */
export const PAGE_BYTES_MAX = 16 * MiB;
/** A live follower gets rows twice a second at most; so often Redis is asked how far the pipelines are. */
export const LIVE_EVERY_MS = 500;
export const PROGRESS_EVERY_MS = 200;
/**
 * From an event's arrival at a front to its append; a healthy front appends within 10 ms. What takes longer is refused
 * late or not at all.
 */
export const ARRIVAL_LAG_MS = 300;
/** Rows that are sent one by one at a time; further ones are sent as a number. */
export const LIVE_ROWS_MAX = 200;
/** Balancers and proxies end connections on which nothing comes for 30 to 60 s. */
export const LIVE_HEARTBEAT_MS = 15_000;
/** A reader who has not taken so much is cut off: it is read again faster than it is caught up with. */
export const LIVE_UNREAD_BYTES_MAX = 256 * KiB;
/** Past this, reading the list again is cheaper than sending what came in between. */
export const LIVE_RESUME_MS_MAX = 10 * 60_000;
/**
 * So often a follower of the feed has ClickHouse asked whether there is more, some 5 ms each: what it reads comes every
 * CHAIN_FLUSH_MS.
 */
export const FEED_EVERY_MS = 1_000;
/** A place in the feed is honoured for so long; past it, an export is the way to have all. */
export const FEED_RESUME_MS_MAX = 7 * 86_400_000;
/** A key or a session that has ended is noticed within this time on a stream that has nothing to send. */
export const LIVE_CHECK_MS = 500;
/** A draining front waits this long without a request before it closes the connections that are left. */
export const DRAIN_QUIET_MS = 1_000;
/** When a key was last used is written down this often. */
export const KEY_USES_FLUSH_MS = 5_000;
/** A front's cached agents; 100,000 agents at about 0.5 KB each. */
export const AGENT_CACHE_MAX = 100_000;
/** A front's cached API keys. */
export const KEY_CACHE_MAX = 20_000;
/**
 * A front's cached sets of compiled rules, one an account; a set of hundreds of policies may hold megabytes of
 * automata.
 */
export const RULE_CACHE_MAX = 2_000;
/** A front keeps so many texts of policies with what it read of them, for all accounts: some 5 KB each. */
export const POLICY_TEXTS_MAX = 50_000;

/** Policies. */
export const POLICIES_ACTIVE_MAX = 1_000;
export const POLICIES_MAX = 2_000;
/** Shadows beside them: what they cost each event is bounded by their allowance (policy/allowance.ts). */
export const SHADOWS_ACTIVE_MAX = 20;
/** Two weeks have every day of the week twice; one that is forgotten costs no longer. */
export const SHADOW_KEPT_MS = 14 * 24 * 60 * 60 * 1000;
/** One report covers so many days: it reads a column of every event of the account in that time. */
export const SHADOW_REPORT_DAYS_MAX = 31;
/**
 * A body that declares policies has this size at most: 200 of 5 KB. A front parses it within 10 ms, as it does an
 * event.
 */
export const DECLARATION_BYTES_MAX = MiB;
export const CONDITIONS_BYTES_MAX = 16 * KiB;
export const PATTERN_CHARACTERS_MAX = 512;
/** Texts of all entries of one `shell` or `sql`. The ready policy has 180. */
export const COMMAND_TEXTS_MAX = 500;
/** Words of a command that comes as a list: what a system takes at once is some 100,000. */
export const COMMAND_WORDS_MAX = 100_000;
/**
 * Texts that a shell runs inside of others (`sh -c "sh -c …"`), and substitutions. People write two or three; each is
 * read again.
 */
export const SHELL_DEPTH_MAX = 16;
/** Commands that run commands (`sudo env nice …`), one behind the other. */
export const SHELL_RUNS_MAX = 16;
/** Words that braces make of one (`{a,b}{c,d}`), and values that a word may have. */
export const SHELL_WORD_FORMS_MAX = 64;
/**
 * A variable is known up to this length; nothing is known of longer ones, or two lines could make a word of any size.
 */
export const SHELL_VALUE_CHARACTERS_MAX = 4 * KiB;
export const PATTERNS_MAX = 50;
export const ALERTS_MAX = 1_000;
/** Legal holds: they are read with the account, and each is a condition of its queries where there are old rows. */
export const HOLDS_MAX = 100;
/** Saved views: 200 KB of Redis at most, and more than a menu is read to the end. */
export const VIEWS_MAX = 100;
/** Connections: an organisation has a few products that send hooks. Their secrets are in the cache of each front. */
export const CONNECTIONS_MAX = 100;
/** Checks: an organisation has a few judges. They are in the cache of each front, with their secrets. */
export const CHECKS_MAX = 100;
/** Outgoing feeds: each reads again what the others read. */
export const OUTGOING_FEEDS_MAX = 20;
/** So often an outgoing feed that has nothing to send is looked at: what it sends comes every CHAIN_FLUSH_MS. */
export const OUTGOING_EVERY_MS = 2_000;
/** Entries of the chains, and bytes, of a batch: 1 MB is what receivers and proxies take by default. */
export const OUTGOING_BATCH_ROWS_MAX = 500;
export const OUTGOING_BATCH_BYTES_MAX = 900_000;
/** From the first failure to the longest pause between two tries of a receiver that is away. */
export const OUTGOING_RETRY_MS = { minMs: 1_000, maxMs: 300_000 } as const;
/** So often the place of an outgoing feed is put into the registry, for a Redis that loses it. */
export const OUTGOING_NOTED_MS = 600_000;
/** So many calls of a check are shown, the last of a day: enough for a p95, and 10 KB. */
export const CHECK_CALLS_KEPT = 200;
export const CHECK_CALLS_MS_MAX = 86_400_000;
/** The bytes of a conversation that a product sends, by its description, and room for another way of counting. */
export const INFERENCE_BYTES_MAX = 10 * MiB;
/**
 * A conversation that is sent whole with each turn is remembered for a day after it, by its newest messages: 40 bytes
 * each, so 50 MB an account at most. A turn adds a few, and an edit goes back a few.
 */
export const CONVERSATION_KEPT_MS = 24 * 3_600_000;
export const CONVERSATIONS_MAX = 30_000;
export const MESSAGES_KNOWN_MAX = 32;
/** Messages of a conversation that are asked about at a time: of the longest that is taken. */
export const CONVERSATION_CLAIMS_MAX = 5_000;
/**
 * The share of each bound of the account that keys bound to an agent may fill, all of them together: the rest is left
 * to its people. And of one agent policies, alerts and keys together, more than which its own keys do not add: of those
 * in force three agents could fill what is for bound keys.
 */
export const BOUND_SHARE_MAX = 0.75;
export const OF_AGENT_MAX = 50;
/**
 * Mails that the outbox keeps: at 2 to 5 KB each some 50 MB of the data folder. It is for inspecting, not an archive:
 * the oldest go.
 */
export const OUTBOX_FILES_MAX = 10_000;
/**
 * Mails written between two readings of the outbox, which take some ms when it is full: by so many others may have
 * overfilled it.
 */
export const OUTBOX_READ_EVERY = 100;

/**
 * Pending approvals of an account: 10 MB of Redis at 1 KB each, and more than people decide. What comes beyond is
 * denied at once.
 */
export const APPROVALS_PENDING_MAX = 10_000;
/**
 * Decided approvals stay in Redis for callers who come late and for entries that are delivered again; then ClickHouse
 * alone has them. At 700 bytes each an hour of 100 a second is 250 MB; a day of 18 a second would have filled the
 * backlog's gigabyte.
 */
export const APPROVAL_KEPT_MS = 60 * 60 * 1000;
/** How long a caller may wait for a decision. */
export const APPROVAL_WAIT_SECONDS_MAX = 60;
/** A longer wait is answered after so many: proxies give up at 60 s by default, and an answer beats a 504. */
export const APPROVAL_ANSWERED_SECONDS = 45;
/** Callers that wait for decisions in one front, some KB each; beyond it 503. */
export const APPROVAL_WAITS_MAX = 5_000;
/** One account has so many waits: half, so that it leaves room for those of others. */
export const APPROVAL_WAITS_OF_ACCOUNT_MAX = APPROVAL_WAITS_MAX / 2;
/** Decisions are published by pub/sub, which may lose them: approvals with waiters are polled this often as well. */
export const APPROVAL_POLL_MS = 1_000;
/** How often due approvals are searched for; half of it is the mean delay of a timeout. */
export const APPROVAL_EXPIRY_POLL_MS = 250;
/** Approvals of one commit, and of one poll of a shard: bounds the scripts and what is held of them. */
export const APPROVALS_AT_ONCE = 100;
/**
 * Agents that are registered because a call names them (decision points, spans), of a request and of an account. A
 * program names a few; names that are made of what changes, a user or a conversation, are a mistake or an attack.
 */
export const NEW_AGENTS_A_REQUEST_MAX = 16;
export const NEW_AGENTS_AN_HOUR_MAX = 100;
export const API_KEYS_MAX = 1_000;
/**
 * Browsers signed in with one key: a person has a few. One more ends the oldest, so that no key takes the room of
 * another.
 */
export const SESSIONS_A_KEY_MAX = 10;
/** A session that was not used for so long has ended, and each ends after the second however much it is used. */
export const SESSION_IDLE_MS = 12 * 3_600_000;
export const SESSION_MS_MAX = 7 * 24 * 3_600_000;

/** Buckets of a histogram: as many as a wide screen has room for. */
export const HISTOGRAM_BUCKETS_MAX = 500;
/** Values with a series of their own in a histogram: people cannot distinguish more colours. */
export const HISTOGRAM_VALUES_MAX = 12;
/** Values of a facet: a list that a person still reads. */
export const FACET_VALUES_MAX = 50;

/** Agents of an overview: a table that a person takes in at a look, each with 24 counts. */
export const OVERVIEW_AGENTS_MAX = 20;
/** Models, agents and policies that an overview names, the rest counted together. */
export const OVERVIEW_VALUES_MAX = 5;
/** Policies that matched nothing, of which an overview names so many. */
export const OVERVIEW_IDLE_MAX = 10;
/** Policies whose matches are counted to know which had none: all that there are, and as many deleted ones. */
export const OVERVIEW_POLICIES_COUNTED_MAX = 2 * POLICIES_MAX;

/** Values of one filter of a list: more than a person picks, and each is a comparison for every row. */
export const FILTER_VALUES_MAX = 20;

/** Events that a preview of a policy judges at most, and shows. */
export const PREVIEW_EVENTS_MAX = 1_000;
export const PREVIEW_SHOWN_MAX = 5;
/** A preview judges for so long, in slices between which others have their turn. */
export const PREVIEW_MS_MAX = 1_000;

/**
 * Finished backtests of an account: some 100 KB of Redis each at most, 2 MB together; and for how long each is kept.
 * To compare one change with the next takes a few, of this month.
 */
export const BACKTESTS_KEPT_MAX = 20;
export const BACKTEST_KEPT_MS = 30 * 24 * 3_600_000;
/** A year, as long as events are kept by default. */
export const BACKTEST_RANGE_MS_MAX = 366 * 24 * 3_600_000;
/** Events of one backtest: at 10,000 a second and core an hour and a half. */
export const BACKTEST_EVENTS_MAX = 50_000_000;
/** Rows and bytes that are read at once. More rows of a page share the parts of the table that have to be unpacked. */
export const BACKTEST_PAGE_ROWS_MAX = 50_000;
export const BACKTEST_PAGE_BYTES_MAX = 32 * MiB;
/** A page may take so long in ClickHouse, where it gives way to all else. */
export const BACKTEST_QUERY_SECONDS = 120;
/** The longest time between two savings of a backtest's progress: so much is done again after a kill. */
export const BACKTEST_KEEP_MS = 2_000;
/** A backtest gives way to others that wait after so long. */
export const BACKTEST_TURN_MS = 10_000;
/** How often a process looks for one that waits. */
export const BACKTEST_LOOK_MS = 1_000;
/** Tries of one that never gets any further: it ends the process that runs it, each time, or is never answered. */
export const BACKTEST_TRIES_MAX = 20;
/** The time to wait for events that were acknowledged before a backtest began. */
export const BACKTEST_STORED_MS_MAX = 30_000;
/** Counters of a replayed rate limit, and sub-buckets over all of them: 16 MB of what is kept at most. */
export const BACKTEST_COUNTERS_MAX = 100_000;
export const BACKTEST_BUCKETS_MAX = 1_000_000;
/** Traces with a newly blocked event, 12 bytes each of what is kept; agents and tools with counts of their own. */
export const BACKTEST_TRACES_MAX = 100_000;
export const BACKTEST_GROUPS_MAX = 10_000;

/** A read waits this long for its account's writes to be stored. */
export const READ_WAIT_MS_MAX = 2_000;

/**
 * Rows and bytes of one insert: large enough that ClickHouse's cost per part vanishes, small enough to send again
 * whole.
 */
export const INSERT_ROWS_MAX = 20_000;
export const INSERT_BYTES_MAX = 32 * MiB;

/**
 * A hook after a call may be larger than an event: then each member that is larger than this is recorded by its size.
 * The rest says what happened, and fits.
 */
export const HOOK_MEMBER_BYTES_KEPT = 64 * KiB;
/** A hook on standard input has this size at most: a screen of pictures that a tool has read. */
export const HOOK_BYTES_MAX = 64 * MiB;

/** Idempotency records. */
export const IDEMPOTENCY_KEPT_MS = 24 * 60 * 60 * 1000;
/**
 * So long what a decision point has allowed, or a person approved, is allowed again under its Idempotency-Key. Tools
 * send again within their own time-out, a minute or ten; an agent that has to wait for a person comes back within
 * minutes of the decision. Past it the world has changed, whatever the policies say.
 */
export const DECISION_REPEATED_MS = 5 * 60_000;
/** Share of Redis's maxmemory that they may fill, beside what the backlog may. */
export const IDEMPOTENCY_SHARE_MAX = 0.2;
/**
 * A running request holds its record this long; a front that dies frees it after that. Must outlast the slowest append.
 */
export const IDEMPOTENCY_RUNNING_MS = 10_000;

/** A Redis command that has not answered by then is given up: the write's outcome is unknown and the answer says so. */
export const REDIS_TIMEOUT_MS = 3_000;

/**
 * A write that no replica has by then may be lost with its master: the answer says that its outcome is unknown. Long
 * beside the way to a replica and back; twice as long, for one group behind another, is within REDIS_TIMEOUT_MS.
 */
export const REPLICA_WAIT_MS = 1_000;
/** How often a node is asked how many replicas it has. */
export const REPLICA_LOOK_MS = 1_000;

/** A lease lives this long unless renewed: how long a dead owner's streams wait for a new one. */
export const LEASE_MS = 10_000;
/** Renewals are sent this often: three may fail before the lease is lost. */
export const LEASE_RENEW_MS = 2_000;
/** An owner stops trusting its lease this long before it runs out: time for what it is about to send to arrive. */
export const LEASE_MARGIN_MS = 3_000;
/** A process that has not signed in for this long has no share any more. */
export const MEMBER_MS = 10_000;
export const MEMBER_SIGN_IN_MS = 1_000;

/** An idle stream is asked for entries this often; half of it is the mean wait of a lone event. */
export const READ_POLL_MS = 50;
/** The entries and bytes that a reader is given at once. */
export const READ_ENTRIES_MAX = 500;
export const READ_BYTES_MAX = 2 * MiB;
/** Entries asked for at once: at first, and most. Four of the largest that are joined are four megabytes. */
export const READ_COUNT_MIN = 4;
export const READ_COUNT_MAX = 128;
/**
 * Entries that one group of a process has read and another has not yet, over all streams: a second at 60,000 events/s.
 */
export const READ_WINDOW_BYTES_MAX = 48 * MiB;
/** Bytes of its streams in a pipelines process: three quarters for the store's, each shared out evenly. */
export const READ_AHEAD_BYTES_MAX = 128 * MiB;
/** Entries of one batch: bounds the ids of an acknowledgement. */
export const BATCH_ENTRIES_MAX = 5_000;
/** Inserts at once over all streams of a process. More gain nothing: ClickHouse is the slower side. */
export const INSERTS_AT_ONCE_MAX = 2;
/** Past this age ClickHouse may have forgotten an insert's token; it is asked which rows it has. */
export const TOKEN_TRUST_MS = 5 * 60 * 1000;
/**
 * Rows of one batch that may be dead-lettered. More is no poison but a table that does not fit: the batch waits for
 * an operator to mend it.
 */
export const DEAD_LETTER_ROWS_MAX = 20;
/**
 * Entries that a dead stream holds; a batch with more to dead-letter waits, and with it its stream, rather than lose
 * any.
 */
export const DEAD_ENTRIES_MAX = 1_000;
/** Wait between tries of a batch while ClickHouse is away: doubles from the first to the second. */
export const RETRY_MS_MIN = 100;
export const RETRY_MS_MAX = 5_000;
/** A stream is trimmed at most this often. */
export const TRIM_INTERVAL_MS = 500;
/** A reader that has not had any answer for this long is stuck: readiness fails and the connection is made again. */
export const READER_STUCK_MS = 10_000;
/** A stop waits this long for batches that are being written. */
export const DRAIN_STOP_MS = 25_000;

/**
 * The watch over silent agents looks this often; a look that another process made less than WATCH_TICK_MS_MIN ago will
 * do.
 */
export const WATCH_TICK_MS = 1_000;
export const WATCH_TICK_MS_MIN = 800;
/**
 * No process watched, or no front took events in, for longer than this: a gap, after which every silence is counted
 * again.
 */
export const WATCH_GAP_MS = 5_000;
/** An agent is inspected this often at least: how late a changed heartbeat may be in force. */
export const WATCH_LOOK_MS_MAX = 60_000;
/**
 * Agents inspected in one tick of a partition. With 8 partitions 8,000 a second: at one look a minute that is 480,000
 * agents.
 */
export const WATCH_LOOKS_MAX = 1_000;
/**
 * Ticks in which the watch goes over all agents that were ever seen, searching for new ones; and the most of one tick.
 */
export const WATCH_ROUND_TICKS = 15;
export const WATCH_NEW_MAX = 2_000;

/**
 * Blocks of the audit chain are copied to ClickHouse this often: an insert costs 30 ms of CPU whatever is in it, so 0.6
 * % of a core.
 */
export const CHAIN_FLUSH_MS = 5_000;
/**
 * Batches of a stream whose blocks wait; each holds 64 bytes a row. At full speed a flush finds ten of them; past this
 * the batches wait.
 */
export const CHAIN_PENDING_MAX = 200;
/** Entries of a block that was made of several: 512 KiB. */
export const CHAIN_BLOCK_ENTRIES_MAX = 8_192;

/**
 * Verifications of audit chains that a front does at once: each reads 32 MB at a time and holds as many entries again.
 */
export const VERIFICATIONS_MAX = 2;

/**
 * Baselines in memory, for each partition that is drained here: 1.5 KB each, so 50 MB over 8 partitions. Others are
 * read with their batch.
 */
export const BASELINES_MAX = 4_096;
/** A baseline is forgotten when its agent has been silent for this long; each event's writing prolongs it. */
export const BASELINE_KEPT_MS = 14 * 24 * 60 * 60 * 1000;

/**
 * A front reports keys over their limit this often, of so many a minute at most: as many as it holds leases of,
 * halved.
 */
export const LIMIT_SIGNALS_FLUSH_MS = 1_000;
export const LIMIT_SIGNALS_MAX = 10_000;

/**
 * Accounts and policies with series of their own in each front: 4,600 series, as many as a few hundred kB of text.
 * Settings say otherwise.
 */
export const METRICS_ACCOUNTS_MAX = 200;
export const METRICS_POLICIES_MAX = 1_000;
/** Checks outside that have series of their own: 16 each. */
export const METRICS_CHECKS_MAX = 100;
/** How often a process looks whether Redis still holds the registry: 34 small questions, 40 µs of Redis. */
export const REGISTRY_LOOK_MS = 1_000;
/** How often it reads Redis's settings beside reconnects: an operator may change them while Redis runs. */
export const DURABILITY_LOOK_MS = 30_000;
/**
 * Lines of the log about requests that were refused or slow, in each process: who looks for one finds it, and a flood
 * of refusals costs a disk less than 1 MB a minute.
 */
export const REQUEST_LINES_A_SECOND_MAX = 50;
/** A submission takes some milliseconds, a list some tens: its caller waits noticeably. */
export const SLOW_REQUEST_MS = 1_000;
/** `/readyz` waits this long for each store: both at once, so it answers within 2 s. */
export const READY_PROBE_MS = 1_500;

/** How often a front inspects the backlog. At full speed 250 ms are some 25,000 entries' worth of growth. */
export const BACKLOG_POLL_MS = 250;
/**
 * Share of Redis's maxmemory that streams may fill; counters, leases and the drain itself live in the rest (reliability
 * M10).
 */
export const BACKLOG_SHARE_MAX = 0.7;
/** How often a waiting read asks whether its writes are stored. */
export const BARRIER_POLL_MS = 15;

assert(IDEMPOTENCY_RUNNING_MS > 2 * REDIS_TIMEOUT_MS, 'a running record must outlast a counter trip and an append');
assert(2 * REPLICA_WAIT_MS < REDIS_TIMEOUT_MS, 'a write must be answered behind one group that waits in vain');
assert(ENTRY_BYTES_MAX < INSERT_BYTES_MAX, 'an entry must fit into an insert');
assert(3 * LEASE_RENEW_MS + LEASE_MARGIN_MS < LEASE_MS, 'a lease must survive lost renewals');
assert(REDIS_TIMEOUT_MS <= LEASE_MARGIN_MS, 'a command must have been answered or given up before its lease runs out');
assert(WATCH_GAP_MS > 3 * WATCH_TICK_MS, 'a watch must survive lost ticks');
assert(MEMBER_MS >= LEASE_MS, 'a member must not lose its share before its leases');
assert(IN_HAND_SILENT_MS >= APPENDED_MS_MAX + 4 * REDIS_TIMEOUT_MS, 'a silent front must have appended all it will');
assert(IN_HAND_EVERY_MS < IN_FORCE_MS, 'a front that has started must have said so before a change is in force');
