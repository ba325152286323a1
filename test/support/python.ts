// Programs of the system's python3 with the client in clients/python, which print a line of JSON for each answer.
import { spawn } from 'node:child_process';
import { assetPath } from '../../src/process/assets.ts';

type PythonRun = { status: number | null; signal: string | null; lines: unknown[]; stderr: string; ms: number };

const HEAD = `
import json, os, sys, threading, time
from gatehouse import *
def say(value): print(json.dumps(value), flush=True)
def failure(call, *args, **kwargs):
    try: return call(*args, **kwargs)
    except Exception as error:
        return [type(error).__name__ if isinstance(error, GatehouseError) else "RAW", str(error)]
def client(**more):
    given = dict(url=os.environ["URL"], key=os.environ["KEY"], agent=os.environ["AGENT"], timeout=10.0)
    return Gatehouse(**{**given, **more})
`;

/** Warnings are errors, above all of sockets that are left open. */
export function runPython(
  program: string,
  { url, key, agent, ...more }: { url: string; key: string; agent: string; [name: string]: string },
): Promise<PythonRun> {
  const began = performance.now();
  const child = spawn('python3', ['-W', 'error', '-c', HEAD + program], {
    env: {
      ...{ PATH: process.env.PATH, PYTHONPATH: assetPath('clients/python'), PYTHONDONTWRITEBYTECODE: '1' },
      ...{ URL: url, KEY: key, AGENT: agent, ...more },
    } as NodeJS.ProcessEnv,
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
  return new Promise((resolve) => {
    child.on('close', (status, signal) => {
      const lines = stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as unknown);
      resolve({ status, signal, lines, stderr, ms: performance.now() - began });
    });
  });
}
