// A file of the dashboard's core for tests that need no browser: bundled as it is for the pages, and imported.
import { rolldown } from 'rolldown';
import { assetPath } from '../../src/process/assets.ts';

/** `name`: of the file in dashboard/core, without its suffix. */
export async function dashboardModule<Exports>(name: string): Promise<Exports> {
  const bundle = await rolldown({ input: assetPath(`dashboard/core/${name}.ts`) });
  try {
    const { output } = await bundle.generate({ format: 'esm' });
    return (await import(`data:text/javascript;base64,${Buffer.from(output[0].code).toString('base64')}`)) as Exports;
  } finally {
    await bundle.close();
  }
}
