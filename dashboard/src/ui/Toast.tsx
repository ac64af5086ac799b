// Short messages about what was done or refused, in a corner where they cover no action.
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { Button } from "./Button";
import "./Toast.css";

type Told = { id: number; text: string; bad: boolean };
type Toasts = { tell: (text: string) => void; warn: (text: string) => void };
const Context = createContext<Toasts>({ tell: () => undefined, warn: () => undefined });
let last = 0;

export function ToastProvider({ children }: { children: ReactNode }) {
  const [told, setTold] = useState<Told[]>([]);
  const drop = useCallback((id: number) => setTold((all) => all.filter((one) => one.id !== id)), []);
  const add = useCallback(
    (text: string, bad: boolean) => {
      last += 1;
      const id = last;
      setTold((all) => [...all.slice(-2), { id, text, bad }]);
      window.setTimeout(() => drop(id), bad ? 15_000 : 6000);
    },
    [drop],
  );
  const toasts = useMemo(
    () => ({ tell: (text: string) => add(text, false), warn: (text: string) => add(text, true) }),
    [add],
  );
  return (
    <Context value={toasts}>
      {children}
      <div className="toasts" aria-live="polite">
        {told.map((one) => (
          <div key={one.id} className={`toast ${one.bad ? "toast-bad" : ""}`} role={one.bad ? "alert" : "status"}>
            <span className="wrap">{one.text}</span>
            <Button look="quiet" small aria-label="Dismiss" onClick={() => drop(one.id)}>
              ✕
            </Button>
          </div>
        ))}
      </div>
    </Context>
  );
}

export function useToast(): Toasts {
  return useContext(Context);
}
