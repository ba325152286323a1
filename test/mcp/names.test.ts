// By which name policies see a server that was given none (src/commands/mcp.ts).
import path from 'node:path';
import t from 'tap';
import { nameOf, startedAs } from '../../src/mcp/server-name.ts';

t.test('a server is named by its program, not by what runs it', async (t) => {
  for (const [command, name] of [
    ['npx -y @modelcontextprotocol/server-filesystem ./notes', 'server-filesystem'],
    ['npx -y @modelcontextprotocol/server-github@2026.1.0', 'server-github'],
    ['npx server@1.2', 'server'],
    ['uvx mcp-server-git --repository .', 'mcp-server-git'],
    ['uvx --from git+https://example.com/r tool', 'tool'],
    ['uv --directory /srv/x run server.py', 'x'],
    ['node /srv/a/dist/index.js', 'a'],
    ['node /srv/@scope/b/build/src/main.mjs --port 1', 'b'],
    ['python3 /srv/weather.py', 'weather'],
    ['python -m pkg.server', 'pkg.server'],
    ['docker run -i --rm mcp/fetch', 'fetch'],
    ['docker run -i --rm -e TOKEN mcp/github', 'github'],
    [
      'docker run -i --rm -e TOKEN=1 -v /a:/b --network host ghcr.io/x/github-mcp-server:1.4 stdio',
      'github-mcp-server',
    ],
    ['npx -y mcp-remote https://mcp.example.com/sse --header x', 'mcp.example.com'],
    ['cmd /c npx -y pkg', 'pkg'],
    ['/usr/local/bin/github-mcp-server stdio', 'github-mcp-server'],
    ['env TOKEN=1 /opt/tool', 'tool'],
    ['node', 'node'],
  ] as const)
    t.equal(nameOf(command.split(' ')), name, command);
  t.equal(nameOf(['sh', '-c', 'cd /srv && node /srv/c/index.js']), 'c');
});

t.test('servers are distinguished by what is started, versions of one are not', async (t) => {
  const as = (command: string) => startedAs(command.split(' '));
  t.equal(as('npx -y pkg@1.2.3 a'), as('npx -y pkg@latest a'));
  t.equal(as('docker run image:1.2'), as('docker run image:1.3'));
  t.equal(as('node package.json'), as(`node ${path.resolve('package.json')}`), 'a file by its whole path');
  for (const [one, other] of [
    ['node /a/dist/index.js', 'node /b/dist/index.js'],
    ['ssh user@one serve', 'ssh user@two serve'],
    ['bridge 127.0.0.1:80', 'bridge 127.0.0.1:81'],
    ['npx -y @a/pkg', 'npx -y @b/pkg'],
    ['a b c', 'a bc'],
  ] as const)
    t.not(as(one), as(other), `${one} and ${other}`);
});
