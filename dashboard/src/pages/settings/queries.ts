// The queries of the settings, shared by the tabs.
import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";

export const KEYS = ["keys"];
export const SECRETS = ["secrets"];
export const CALENDARS = ["calendars"];

export function useSettings() {
  return useQuery({ queryKey: ["settings"], queryFn: async () => (await unwrap(api.GET("/api/settings"))).data });
}

export function useKeys() {
  return useQuery({ queryKey: KEYS, queryFn: async () => (await unwrap(api.GET("/api/keys"))).data });
}

export function useSecrets() {
  return useQuery({ queryKey: SECRETS, queryFn: async () => (await unwrap(api.GET("/api/secrets"))).data });
}

export function useCalendars() {
  return useQuery({ queryKey: CALENDARS, queryFn: async () => (await unwrap(api.GET("/api/calendars"))).data });
}
