// Whether the page is light or dark, and the colours of charts: outcomes have theirs, other series take the next of a
// row (core/chart.ts).
import { signal } from '@preact/signals';
import { COLOURS, OTHERS, OTHERS_COLOUR } from '../core/chart.ts';

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
/** The colours of changes: of events that are stopped now, and of those that are stopped no longer. */
const CHANGES: Record<string, string> = {
  'allowed → blocked': '#c8372d',
  'blocked → allowed': '#5b8def',
  'newly blocked': '#c8372d',
  'no longer blocked': '#5b8def',
};
export function colourOf(by: string, value: string, index: number): string {
  if (value === OTHERS) return OTHERS_COLOUR;
  if (by === 'change') return CHANGES[value] ?? COLOURS[(index + 1) % COLOURS.length]!;
  return (by === 'outcome' ? OUTCOMES[value] : undefined) ?? COLOURS[index % COLOURS.length]!;
}
