// A day in a hundred pixels, one bar an hour. The numbers are beside it in words.
export function Sparkline({ hourly, label }: { hourly: readonly number[]; label: string }) {
  const most = Math.max(1, ...hourly);
  const wide = 100 / Math.max(1, hourly.length);
  return (
    <svg class="sparkline" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      {hourly.map((events, i) => {
        const height = events === 0 ? 0 : Math.max(1.5, (events / most) * 24);
        return <rect key={i} x={i * wide} y={24 - height} width={wide * 0.8} height={height} />;
      })}
    </svg>
  );
}
