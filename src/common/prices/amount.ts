// Amounts of money: decimal text with a currency outside, whole millionths of its unit inside (used by price-list.ts
// and by whatever shows a cost).
// Invariant: no amount is ever a fraction of a double: text goes to millionths and back without loss.
const AMOUNT = /^(\d{1,9})(?:\.(\d{1,6}))? ([A-Z]{3})$/;
const MILLION = 1_000_000;

/** `millionths`: a safe integer. */
type Money = { millionths: number; currency: string };

/** undefined: it is none. */
export function parseAmount(text: string): Money | undefined {
  const [, whole, fraction = '', currency] = AMOUNT.exec(text) ?? [];
  if (whole === undefined || currency === undefined) return undefined;
  return { millionths: Number(whole) * MILLION + Number(fraction.padEnd(6, '0')), currency };
}

/** `0.012345 USD`: two decimals at least, and no more than it needs. */
export function amountText(millionths: number, currency: string): string {
  const digits = String(Math.abs(millionths)).padStart(7, '0');
  const fraction = digits.slice(-6).replace(/0{1,4}$/, '');
  return `${millionths < 0 ? '-' : ''}${digits.slice(0, -6)}.${fraction} ${currency}`;
}
