// How `npm run build` makes the pages: into build/dashboard, every address relative, so that they work under any path
// prefix.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

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
    // What the first screen needs comes in one file, whatever other screens share of it: six requests are all it may take.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'first', tags: ['$initial'] }] } } },
  },
});
