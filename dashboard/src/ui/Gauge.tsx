import "./Gauge.css";

/** A share of something that is in use: a bar, and its words for all who cannot see it. */
export function Gauge({ value, of, label }: { value: number; of: number; label: string }) {
  const share = of > 0 ? Math.min(1, Math.max(0, value / of)) : 0;
  const tone = share >= 1 ? "gauge-full" : share >= 0.8 ? "gauge-high" : "";
  return (
    <span className={`gauge ${tone}`} role="img" aria-label={`${label}: ${value} of ${of}`}>
      <span className="gauge-bar" aria-hidden="true">
        <span className="gauge-fill" style={{ width: `${Math.round(share * 100)}%` }} />
      </span>
      <span className="gauge-words" aria-hidden="true">
        {value}/{of}
      </span>
    </span>
  );
}
