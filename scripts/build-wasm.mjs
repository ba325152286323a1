// Builds what is written in AssemblyScript, after the TypeScript: `src/ingest/wasm` becomes `build/service/plain.wasm`.
// Part of `npm run build` and of the set-up; a failure ends with the compiler's messages and status 1.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { main } from 'assemblyscript/asc';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));

/** The loader of the module provides its memory; no allocator, no collector: addresses are laid out by hand. */
const OPTIONS = ['-O3', '--noAssert', '--runtime', 'stub', '--importMemory', '--noExportMemory'];
const FEATURES = ['--enable', 'simd', '--enable', 'bulk-memory'];
const TO = path.join('build', 'service', 'plain.wasm');

const { error, stderr } = await main(['src/ingest/wasm/plain.ts', '-o', TO, ...OPTIONS, ...FEATURES]);
if (error !== null) {
  process.stderr.write(`${stderr.toString()}${error.message}\n`);
  process.exitCode = 1;
}
