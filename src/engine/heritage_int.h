// SPDX-License-Identifier: Apache-2.0
// Inside the engine: whose P a sandbox has (heritage.c says how). A row with base_pin PIN_INHERITED has pin = "TREE ID":
// TREE is to become its P, out of the shadow of ID, which may be its own; "-" = what was pinned there at first.
#pragma once
#include "engine/child.h"
#include "engine/snap_int.h"

const char *heritage_of(const struct sandbox *s); // the id, "" = none
void heritage_fork(struct sandbox *s, const char *origin); // a new row on a snapshot of origin
void heritage_back(struct engine *g, struct sandbox *s);   // a row that went back to a snapshot of its own
bool heritage_needs(struct engine *g, const char *id);	   // somebody else needs this sandbox's shadow
// The same for all ids at once, for whoever asks about many. Keys are in *own, to be freed behind the index. False: a template
// can not be read, and every id may be needed.
bool heritage_all(struct engine *g, struct index *needed, char ***own);
bool heritage_is_lost(const struct box *b);		   // there is nothing to inherit
void heritage_keep(struct box *b);			   // its sandbox goes, its shadow stays
void heritage_release(struct engine *g, const char *id);   // a removed one's goes when nobody needs it any more
// The child that makes it so. It answers {"tree":"..."}.
struct child *heritage_start(struct box *b, void (*ended)(void *, const struct child_end *), void *ctx, struct err *e);
