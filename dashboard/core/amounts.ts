// Amounts of money as the service writes them, `0.012345 USD`: as numbers, to compare them, and as people read them.

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
