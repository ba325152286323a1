// The fast path's work on bytes, compiled to WebAssembly (AssemblyScript, build-wasm.mjs). src/ingest/fast-codec.ts lays out the
// memory, calls what is exported here and says what the results mean. Nothing here allocates.
export { useLiterals } from './find';
export { placeRecords } from './record';
export { placeKeyHashes, scan } from './scan';
export { placeUsage } from './usage';
export { begin, summariesEnd, emit, moveTo, replyEnd, rowsEnd } from './write';
