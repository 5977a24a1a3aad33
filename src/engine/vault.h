// SPDX-License-Identifier: Apache-2.0
// Values that a surface keeps sealed under a name, for headers that the gate sets (engine/net.h): a header's value may hold
// ${vault:ID}, which stands for the value as it is now. Where it may go is said by the header's host, and by nothing else.
#pragma once
#include "engine/engine.h"

#define VAULT_VALUE_MAX 8192

struct vault_entry {
	char id[ID_SIZE]; // k…
	char *owner, *name; // a name is unique among its owner's
	char *about;	    // JSON that the surface keeps with it
	char *sealed;	    // in hex
	uint64_t version, created, updated;
};
struct vault_wish {
	const char *owner, *name, *about; // about NULL: as it was
	const char *value;
};

// viewer: NULL sees all; else the owner whose entries count. By id or name.
const struct vault_entry *engine_vault_find(struct engine *g, const char *viewer, const char *word);
void engine_vault_each(struct engine *g, const char *viewer, void (*each)(void *ctx, const struct vault_entry *v), void *ctx); // oldest first
// New: CONFLICT when there is one of that name.
const struct vault_entry *engine_vault_new(struct engine *g, const struct vault_wish *w, struct err *e);
// A new version: live sandboxes whose headers hold it are told, then it is done.
void engine_vault_change(struct engine *g, const char *id, const struct vault_wish *w, struct done d);
void engine_vault_remove(struct engine *g, const char *id, struct done d);
