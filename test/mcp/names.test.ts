// By which name policies see a server that was given none (src/commands/mcp.ts).
import t from 'tap';
import { nameOf } from '../../src/commands/mcp.ts';

t.test('a server is named by its program, not by what runs it', async (t) => {
  for (const [command, name] of [
    ['npx -y @modelcontextprotocol/server-filesystem ./notes', 'server-filesystem'],
    ['npx -y @modelcontextprotocol/server-github@2026.1.0', 'server-github'],
    ['uvx mcp-server-git --repository .', 'mcp-server-git'],
    ['node ./build/index.js', 'index'],
    ['python3 /srv/weather.py', 'weather'],
    ['docker run -i --rm mcp/fetch', 'fetch'],
    ['/usr/local/bin/github-mcp-server stdio', 'github-mcp-server'],
    ['node', 'node'],
  ] as const)
    t.equal(nameOf(command.split(' ')), name, command);
});
