// The part of autocannon that the load generator uses; the package ships no types.
declare module 'autocannon' {
  type Options = {
    url: string;
    requests: { method: 'POST'; path: string; body: string; headers: Record<string, string> }[];
    connections: number;
    duration: number;
  };
  type Result = {
    requests: { average: number };
    latency: { p50: number; p99: number };
    non2xx: number;
    /** Seconds. */
    duration: number;
    statusCodeStats: Record<string, { count: number }>;
    errors: number;
  };
  export default function autocannon(options: Options): Promise<Result>;
}
