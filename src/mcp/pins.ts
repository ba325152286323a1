// What an MCP server said of its tools when they were last let through (`gatehouse mcp`): a file of hashes and
// descriptions, so that a tool whose description changes after it was trusted is reported.
// Invariant: only `keep` trusts a tool; a tool that is no longer listed stays known. The file is replaced as a whole.
// Failure: a file that cannot be read or is no file of ours ends the start. Taking it for an empty one would trust
// every changed tool.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UserFacingError } from '../common/user-facing-error.ts';

/** As a server lists it; whatever else it says is passed on. */
export type McpTool = { name: string; description?: string } & Record<string, unknown>;
type Pin = { hash: string; description: string };
export type Standing = { hash: string; status: 'new' | 'changed' | 'known'; previous?: Pin };

/** What a model reads of a tool. Hints of how to show it may change. */
const PINNED = ['title', 'description', 'inputSchema', 'outputSchema', 'annotations'];

export class ToolPins {
  readonly #file: string;
  readonly #pins: Map<string, Pin>;
  #isChanged = false;

  constructor(file: string) {
    this.#file = file;
    this.#pins = new Map(Object.entries(readPins(file)));
  }

  standing(tool: McpTool): Standing {
    const hash = hashOf(tool);
    const previous = this.#pins.get(tool.name);
    if (previous === undefined) return { hash, status: 'new' };
    return previous.hash === hash ? { hash, status: 'known' } : { hash, status: 'changed', previous };
  }

  keep({ name, description = '' }: McpTool, { hash, status }: Standing): void {
    if (status === 'known') return;
    this.#pins.set(name, { hash, description });
    this.#isChanged = true;
  }

  save(): void {
    if (!this.#isChanged) return;
    mkdirSync(path.dirname(this.#file), { recursive: true });
    const written = `${this.#file}.${process.pid}`;
    writeFileSync(written, `${JSON.stringify({ tools: Object.fromEntries(this.#pins) }, null, 2)}\n`);
    renameSync(written, this.#file);
    this.#isChanged = false;
  }
}

function readPins(file: string): Record<string, Pin> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new UserFacingError(`${file} cannot be read: ${(error as Error).message}`);
  }
  const tools = toolsIn(text);
  if (tools === undefined)
    throw new UserFacingError(`${file} is not a file of pinned tools. Delete it to trust the tools as they are now`);
  return tools;
}

function toolsIn(text: string): Record<string, Pin> | undefined {
  try {
    const { tools } = JSON.parse(text) as { tools: Record<string, Pin> };
    const isWhole = Object.values(tools).every(
      ({ hash, description }) => typeof hash === 'string' && typeof description === 'string',
    );
    return isWhole ? tools : undefined;
  } catch {
    return undefined;
  }
}

function hashOf(tool: McpTool): string {
  const said = JSON.stringify(inOrder(Object.fromEntries(PINNED.map((key) => [key, tool[key]]))));
  return createHash('sha256').update(said).digest('hex');
}

/** With the keys of all objects in order: a server may list them in any. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, inOrder(item)]),
  );
}
