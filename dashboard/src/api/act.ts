// Changing something: one request, a toast with its outcome, and the queries that show it are read again.
import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { useToast } from "../ui/Toast";
import { Problem, sentOnce } from "./client";

const UNANSWERED =
  "The service did not answer, so it is not known whether this was done. Look at what it is about before you repeat it.";

type Options<T, V> = {
  /** The sentence that tells what was done. */
  done?: (answer: T, input: V) => string;
  /** The queries that show it; all by default. */
  touches?: QueryKey[];
  onDone?: (answer: T, input: V) => void;
  /** Show no toast for an error: the caller shows it beside its form. */
  quiet?: boolean;
};

export function useAct<T, V = void>(run: (input: V) => Promise<T>, options: Options<T, V> = {}) {
  const client = useQueryClient();
  const toast = useToast();
  return useMutation<T, Error, V>({
    mutationFn: (input) => sentOnce(run(input), UNANSWERED),
    onSuccess: async (answer, input) => {
      const text = options.done?.(answer, input);
      if (text) toast.tell(text);
      options.onDone?.(answer, input);
      const touched = options.touches ?? [[]];
      await Promise.all(touched.map((queryKey) => client.invalidateQueries({ queryKey })));
    },
    onError: (error) => {
      if (!options.quiet) toast.warn(error instanceof Problem ? error.message : String(error));
    },
  });
}
