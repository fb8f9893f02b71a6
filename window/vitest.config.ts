import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["**/*.test.ts"], setupFiles: ["./test-setup.ts"], environment: "node" },
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
});
