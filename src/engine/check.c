// SPDX-License-Identifier: Apache-2.0
// Rows as they come from state.db. Whoever edits the file by hand gets a sandbox that says what is wrong with it, never a
// daemon that dies of it, and never a path that leads out of SKEP_HOME.
#include "engine/snap_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

// Something below one of our own directories, named from SKEP_HOME on.
bool is_inner_path(const char *path)
{
	static const char *const dirs[] = {"layers/", "trees/", "repos/"};
	auto_free char *whole = xasprintf("/%s", path);
	for (size_t i = 0; i < countof(dirs); i++)
		if (str_has_prefix(path, dirs[i]) && path[strlen(dirs[i])])
			return path_is_clean(whole);
	return false;
}

static bool are_inner(char *const *paths)
{
	for (; *paths; paths++)
		if (!is_inner_path(*paths))
			return false;
	return true;
}

static bool mounts_are_whole(const struct sandbox *s)
{
	for (uint32_t i = 0; i < s->n_mounts; i++)
		if (!s->mounts[i].src || !s->mounts[i].dst)
			return false;
	return true;
}

static char **no_list(char **old)
{
	strv_free(old);
	return xcalloc(1, sizeof(char *));
}

static void drop_mounts(struct sandbox *s)
{
	for (uint32_t i = 0; i < s->n_mounts; i++) {
		free(s->mounts[i].src);
		free(s->mounts[i].dst);
	}
	s->n_mounts = 0;
}

// NULL: all is well. Else what was wrong and has been made harmless: such a sandbox must not start.
static const char *mend(struct engine *g, struct sandbox *s)
{
	const char *wrong = NULL;
	if (s->state >= STATES || s->profile >= PROFILES || s->on_expiry >= EXPIRIES || s->base_pin > PIN_INHERITED) {
		wrong = "a state that does not exist";
		s->state = s->state < STATES ? s->state : STATE_FAILED;
		s->profile = PROFILE_USER;
		s->on_expiry = EXPIRY_STOP;
		s->base_pin = PIN_NONE;
	}
	if (!id_is(s->layer)) {
		wrong = "no writable layer";
		id_make('l', s->layer);
		s->layer_made = false;
	}
	if (!are_inner(s->lowers) || s->n_base > strv_len(s->lowers) || (s->tree && !is_inner_path(s->tree))) {
		wrong = "layers that can not be its own";
		s->lowers = no_list(s->lowers);
		s->n_base = 0;
		free(s->tree);
		s->tree = NULL;
	}
	if (!mounts_are_whole(s)) {
		wrong = "mounts without a place";
		drop_mounts(s);
	}
	if (!s->ws_path || !path_is_clean(s->ws_path) || (s->repo && !path_is_clean(s->repo))) {
		wrong = "no workspace";
		free(s->ws_path);
		s->ws_path = xstrdup("/workspace");
		free(s->repo);
		s->repo = NULL;
	}
	if (!s->owner)
		s->owner = xstrdup(g->owner);
	return wrong;
}

bool row_check(struct engine *g, struct sandbox *s, bool *out_broken)
{
	*out_broken = false;
	if (!id_is(s->id)) {
		log_line(LOG_ERROR, "state.db: a sandbox with an impossible id is passed over: it was changed by somebody else");
		return false;
	}
	const char *wrong = mend(g, s);
	if (!wrong)
		return true;
	*out_broken = true;
	free(s->reason);
	s->reason = xasprintf("state.db was changed by somebody else: it has %s; go back to a snapshot with `skep rollback`, or remove it with "
			      "`skep rm --force`", wrong);
	log_line(LOG_ERROR, "sandbox=%s %s", s->id, s->reason);
	if (s->state == STATE_STOPPED)
		s->state = STATE_FAILED;
	return true;
}

bool snapshot_check(const struct snapshot *n)
{
	if (id_is(n->id) && id_is(n->sandbox) && are_inner(n->lowers) && n->n_base <= strv_len(n->lowers))
		return true;
	log_line(LOG_ERROR, "state.db: snapshot %s is passed over: it was changed by somebody else", id_is(n->id) ? n->id : "?");
	return false;
}

bool derived_check(const struct derived_row *d)
{
	if (d->kind < DERIVED_KINDS && d->key && d->path && is_inner_path(d->path))
		return true;
	log_line(LOG_ERROR, "state.db: a row about derived things is passed over: it was changed by somebody else");
	return false;
}
