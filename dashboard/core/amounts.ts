// Amounts as people read them: counts, shares, changes, and money, which the service writes as `0.012345 USD`.

/** The number of units of its currency. */
export function amountOf(text: string): number {
  return Number(text.slice(0, text.indexOf(' ')));
}

/** `$0.0123`, `$12.35`: two decimals, below one as many as say something. */
export function shortAmount(text: string): string {
  const amount = amountOf(text);
  const decimals = Math.abs(amount) >= 1 ? 2 : Math.abs(amount) >= 0.01 ? 4 : 6;
  return Intl.NumberFormat('en', {
    ...{ style: 'currency', currency: text.slice(text.indexOf(' ') + 1) },
    ...{ minimumFractionDigits: 2, maximumFractionDigits: decimals },
  }).format(amount);
}

/** The least count of which a share says something; of fewer both counts are there to be read. */
const FEW = 10;

/** `+12 %` of what it was before, or `over 10 times` it. `few`: below so much there is no share; of 0 there never is. */
export function changeText(now: number, before: number, few = FEW): string {
  if (now === before || before === 0 || before < few) return '';
  const share = Math.round(((now - before) / before) * 100);
  if (share >= 900) return 'over 10 times';
  return share === 0 ? '' : `${share > 0 ? '+' : '−'}${Math.abs(share)} %`;
}

/** `12 %`, `0.4 %`. `0 %` of none alone, `100 %` of all alone. */
export function shareText(part: number, whole: number): string {
  if (part === 0) return '0 %';
  const percent = (part / whole) * 100;
  if (percent < 0.1) return '< 0.1 %';
  const shown = percent < 10 ? Math.round(percent * 10) / 10 : Math.round(percent);
  return `${part < whole ? Math.min(99, shown) : 100} %`;
}

/** `12,345` or, where that is long, `1.2 M`. */
export function shortNumber(n: number): string {
  return n < 1_000_000
    ? n.toLocaleString('en')
    : Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
        .format(n)
        .replace(/([A-Z])$/, ' $1');
}
