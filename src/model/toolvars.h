// SPDX-License-Identifier: Apache-2.0
// Variables that say where a tool of the caller's home has its data. Inside, HOME is another directory, so the tool would look in
// vain at its usual place. Not among them are variables that also say where a tool writes what it installs or caches (CARGO_HOME,
// PNPM_HOME, BUN_INSTALL, GOPATH): what is shown of the caller's home is read-only, and those tools find their programs without.
#pragma once

extern const char *const tool_variables[]; // ends with NULL
// Where that is without the variable, from the home directory on; NULL = nowhere.
const char *tool_variable_place(const char *name);
