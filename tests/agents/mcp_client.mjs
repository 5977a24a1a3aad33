// SPDX-License-Identifier: Apache-2.0
// A client of the protocol's own libraries works with skep:  node mcp_client.mjs PACKAGES v1|v2 legacy|auto TARGET...
// TARGET: an http URL (TOKEN in the environment), or a command. Prints what it saw as one JSON object.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, kind, era, ...target] = process.argv.slice(2);
const require = createRequire(packages + '/package.json');
const load = (name) => import(pathToFileURL(require.resolve(name)));
const isUrl = target[0].startsWith('http');
const init = { requestInit: { headers: process.env.TOKEN ? { Authorization: 'Bearer ' + process.env.TOKEN } : {} } };

async function connect() {
  const info = { name: 'test', version: '1' };
  const process_ = { command: target[0], args: target.slice(1), env: process.env, stderr: 'inherit' };
  if (kind === 'v1') {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info);
    await client.connect(isUrl ? new StreamableHTTPClientTransport(new URL(target[0]), init) : new StdioClientTransport(process_));
    return { client, call: (params, options) => client.callTool(params, undefined, options) };
  }
  const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
  const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { versionNegotiation: { mode: era } });
  await client.connect(isUrl ? new StreamableHTTPClientTransport(new URL(target[0]), init) : new StdioClientTransport(process_));
  return { client, call: (params, options) => client.callTool(params, options) };
}

const seen = { progress: [] };
const { client, call } = await connect();
seen.tools = (await client.listTools()).tools.map((t) => t.name);
seen.version = client.getNegotiatedProtocolVersion?.() ?? client.transport?.protocolVersion ?? client.transport?._protocolVersion;
const where = seen.tools.includes('sandbox_create') ? { sandbox: (await call({ name: 'sandbox_create', arguments: { empty: true } })).structuredContent.sandbox } : {};
const tool = async (name, args, options) => (await call({ name, arguments: { ...where, ...args } }, options)).structuredContent;

await tool('write', { path: 'dir/hello.txt', content: 'hello\nworld\n' });
seen.edited = (await tool('edit', { path: 'dir/hello.txt', old: 'world', new: 'there' })).replaced;
seen.text = (await tool('read', { path: 'dir/hello.txt' })).text;
seen.hits = (await tool('search', { pattern: 'th.re' })).hits;
seen.run = await tool('run', { command: 'wc -l < dir/hello.txt; sleep 1.5; exit 7' }, { onprogress: (p) => seen.progress.push(p.progress) });
const long = await tool('run', { command: 'seq 1 50000', max_output: 1000 });
seen.omitted = long.stdout_omitted;
seen.resource = (await client.readResource({ uri: `skep://exec/${long.exec}/stdout?offset=4&length=6` })).contents[0].text;
seen.templates = (await client.listResourceTemplates()).resourceTemplates.length;
const refused = await call({ name: 'edit', arguments: { ...where, path: 'dir/hello.txt', old: 'nowhere', new: '' } });
seen.refused = [refused.isError, refused.content[0].text];

const abort = new AbortController();
setTimeout(() => abort.abort(), 500);
try {
  await call({ name: 'run', arguments: { ...where, command: 'echo $$ > pid; exec sleep 7654321', yield_ms: 60000 } }, { signal: abort.signal });
  seen.cancelled = false;
} catch (e) {
  seen.cancelled = true;
}
for (let i = 0; i < 50 && (i === 0 || seen.left.length); i++) {
  await new Promise((done) => setTimeout(done, 100));
  seen.left = (await tool('status', {})).running;
}
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
