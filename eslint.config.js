// Checks of the page's JavaScript, run by `make lint` where npm is installed.
import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["**/*.js", "**/*.mjs"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: { ...globals.browser } },
    rules: { eqeqeq: ["error", "always", { null: "ignore" }], "no-var": "error", "prefer-const": ["error", { destructuring: "all" }] },
  },
  { files: ["tests/**/*.mjs"], languageOptions: { globals: { ...globals.node } } },
];
