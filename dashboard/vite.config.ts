/// <reference types="vitest/config" />
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Relative addresses, so that the service can be mounted under any prefix: index.html has a <base> that the service sets.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../src/mainspring/api/static/dashboard",
    emptyOutDir: true,
    target: "es2022",
    // A data: URL would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { port: 5173, proxy: { "/api": "http://127.0.0.1:3000", "/openapi.json": "http://127.0.0.1:3000" } },
  // A test of components begins with: // @vitest-environment jsdom
  test: { environment: "node", include: ["src/**/*.test.{ts,tsx}"] },
});
