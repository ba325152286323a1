// How `npm run build` makes the pages: into build/dashboard, every address relative, so that they work under any path
// prefix.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

/**
 * The modules that are bundled into one file: all that the first screen needs, whatever other screens share of it, for
 * six requests are all it may take; and all that the list of events needs beside it, for a browser sends six requests
 * at a time, and its rows are one. `curl`: what an empty account needs of that, too, which shows how to send.
 */
const GROUPS = [
  { name: 'first', tags: ['$initial'], priority: 2 },
  { name: 'curl', test: /\/dashboard\/core\/curl\.ts$/, priority: 2 },
  { name: 'events', test: /\/dashboard\/screens\/events\.tsx$/, priority: 1 },
];

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: './',
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: fileURLToPath(new URL('../build/dashboard', import.meta.url)),
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0, // the content security policy has no data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: { groups: GROUPS } } },
  },
});
