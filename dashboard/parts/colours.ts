// Colours of charts. Outcomes have theirs; other series take the next of a row that is read without green
// and red.
import { signal } from '@preact/signals';

const query = matchMedia('(prefers-color-scheme: dark)');
export const dark = signal(isDark());
query.addEventListener('change', () => (dark.value = isDark()));

const KEPT = 'gatehouse-theme';
export type Theme = 'system' | 'light' | 'dark';
export const theme = signal<Theme>(keptTheme());
applyTheme();

function keptTheme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

function isDark(): boolean {
  const kept = keptTheme();
  return kept === 'system' ? query.matches : kept === 'dark';
}

export function setTheme(next: Theme): void {
  if (next === 'system') localStorage.removeItem(KEPT);
  else localStorage.setItem(KEPT, next);
  theme.value = next;
  applyTheme();
}

function applyTheme(): void {
  document.documentElement.dataset['theme'] = theme.value;
  dark.value = isDark();
}

const OUTCOMES: Record<string, string> = { allowed: '#5b8def', pending: '#d9a514', blocked: '#c8372d' };
/** What is stopped, and what is let go. */
const CHANGES: Record<string, string> = {
  'allowed → blocked': '#c8372d',
  'blocked → allowed': '#5b8def',
  'newly blocked': '#c8372d',
  'no longer blocked': '#5b8def',
};
const ROW = [
  '#5b8def',
  '#d9a514',
  '#3a9e8f',
  '#8e6bd1',
  '#c8623a',
  '#6f8f3a',
  '#c05a92',
  '#5a7184',
  '#9a7b4f',
  '#2f7fb5',
];

export function colourOf(by: string, value: string, index: number): string {
  if (by === 'change') return CHANGES[value] ?? ROW[(index + 1) % ROW.length]!;
  return (by === 'outcome' ? OUTCOMES[value] : undefined) ?? ROW[index % ROW.length]!;
}
