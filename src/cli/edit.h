// SPDX-License-Identifier: Apache-2.0
// Changing one entry of somebody else's configuration file: every other byte of it stays, comments included.
#pragma once
#include "base/buf.h"

enum edit { EDIT_FAILED = -1, EDIT_SAME, EDIT_DONE };

// JSON with comments and trailing commas. path: names from the outermost object on, ended by NULL; objects on the way that are
// not there are made. value: JSON on one line. An empty text is an empty object.
enum edit jsonc_set(struct buf *text, const char *const *path, const char *value, struct err *e);
enum edit jsonc_remove(struct buf *text, const char *const *path, struct err *e);
bool jsonc_has(const struct buf *text, const char *const *path);
bool jsonc_is_empty(const struct buf *text); // nothing but empty objects

// TOML: the table [A.B], its keys one to a line. Keys that are not in the list stay.
struct toml_key {
	const char *name, *value;
};
enum edit toml_set(struct buf *text, const char *table, const struct toml_key *keys, struct err *e); // ended by a NULL name
enum edit toml_remove(struct buf *text, const char *table, struct err *e); // with the tables below it
