// The address of a service, as every command that is a client of one takes it: its path is kept, and what cannot be one
// is refused before anything is sent.
import t from 'tap';
import { serviceToAsk, UsageError } from '../../src/commands/context.ts';

t.beforeEach(() => {
  process.env['GATEHOUSE_API_KEY'] = 'gth_x';
});

t.test('the path of the address is kept, with and without a slash at its end', async (t) => {
  for (const [set, url] of [
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['http://127.0.0.1:8080/', 'http://127.0.0.1:8080'],
    ['https://host/gatehouse', 'https://host/gatehouse'],
    ['https://host/gatehouse/', 'https://host/gatehouse'],
    ['https://host/a/b//', 'https://host/a/b'],
    [' HTTPS://host/a@b \n', 'HTTPS://host/a@b'],
    ['http://[::1]:8080/x', 'http://[::1]:8080/x'],
  ] as const) {
    process.env['GATEHOUSE_URL'] = set;
    t.equal(serviceToAsk(undefined).url, url);
    delete process.env['GATEHOUSE_URL'];
    t.equal(serviceToAsk(set).url, url, 'by the option');
  }
});

t.test('what cannot be one is refused, and not repeated', async (t) => {
  for (const set of [
    ...[
      '',
      'gatehouse',
      '127.0.0.1:8080',
      '//host',
      'ftp://host',
      'file:///etc',
      'http:/host',
      'http://',
      'http:\\\\host',
    ],
    ...['http://host?x=1', 'http://host/a?x=1', 'http://host/#key=gth_secret', 'http://host/a#b', 'http://host/a b'],
    ...[
      'http://user:secret@host',
      'http://user@host/a',
      'http://host:99999',
      'http://host\\@other/',
      'http://host/a\\b',
    ],
  ]) {
    process.env['GATEHOUSE_URL'] = set;
    const sentence = 'must be as http://host:8080/prefix, with nothing behind the path.';
    t.throws(() => serviceToAsk(undefined), new UsageError(`GATEHOUSE_URL ${sentence}`), set);
    t.throws(() => serviceToAsk(set), new UsageError(`--url ${sentence}`), set);
  }
  delete process.env['GATEHOUSE_URL'];
  t.throws(() => serviceToAsk(undefined), new UsageError('GATEHOUSE_URL is not set'));
});
