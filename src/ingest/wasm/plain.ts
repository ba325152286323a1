// The work of wasm-codec.ts on bytes, compiled to WebAssembly (AssemblyScript, build-wasm.mjs).
// src/ingest/wasm-instance.ts places the memory areas and calls what is exported here; layout.ts says what is in them.
// Nothing here allocates.
export { placeRecords } from './record';
export { placeKeyHashes, scan } from './scan';
export { placeTables, useSigns } from './signs';
export { placeUsage } from './usage';
export { useWatched } from './watched';
export { begin, summariesEnd, emit, moveTo, replyEnd, rowsEnd } from './write';
