// Lays large payloads out beside the page, so that no task of the page grows with the payload.
import { layOut } from './tokens.ts';

addEventListener('message', ({ data }: MessageEvent<string>) => {
  const { lines, count } = layOut(data);
  (postMessage as (value: unknown, transfer: Transferable[]) => void)({ lines, count }, [lines.buffer]);
});
