// SPDX-License-Identifier: Apache-2.0
// A cell's paths as Landlock rules.
#include "isolate/contain_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "isolate/landlock.h"
#include <fcntl.h>
#include <unistd.h>

#define PATHS 8

struct rules {
	struct landlock_rule list[PATHS + LIMIT_MOUNTS + 2 + 2 * LIMIT_LAYERS];
	size_t n;
};

static int add_path(struct rules *r, const char *path, bool write, bool device, struct err *e)
{
	int fd = fs_open(AT_FDCWD, path, O_PATH, 0, e);
	if (fd < 0)
		return -1;
	r->list[r->n++] = (struct landlock_rule){.fd = fd, .write = write, .device = device};
	return 0;
}

static int add_paths(struct rules *r, const struct cell_spec *s, struct err *e)
{
	const struct {
		const char *path;
		bool write, device;
	} paths[PATHS] = {
		{"/", s->profile == PROFILE_ROOT, false},
		{"/dev", true, true},
		{"/proc", true, false},
		{"/tmp", true, false},
		{"/run", true, false},
		{s->ws_path, true, false},
		{s->home, true, false},
		{"/dev/mqueue", true, false}, // mq_open goes by a mount of the kernel's own, which has no /dev above it
	};
	for (size_t i = 0; i < PATHS; i++)
		if (add_path(r, paths[i].path, paths[i].write, paths[i].device, e))
			return -1;
	for (uint32_t i = 0; i < s->n_mounts; i++) {
		if (!s->mounts[i].writable)
			continue;
		if (r->n == PATHS + LIMIT_MOUNTS) // without a rule it would be shown as writable and refuse every write
			return err_set(e, ERR_LIMIT, "more than %d writable mounts: give some as :ro, or mount a directory above them", LIMIT_MOUNTS);
		if (add_path(r, s->mounts[i].dst, true, false, e))
			return -1;
	}
	return 0;
}

static void add_walked(struct rules *r, const struct contain *c)
{
	r->list[r->n++] = (struct landlock_rule){.fd = c->layer};
	if (c->base >= 0)
		r->list[r->n++] = (struct landlock_rule){.fd = c->base};
	for (int i = 0; i < c->n_lowers; i++) {
		if (c->lowers[i] >= 0)
			r->list[r->n++] = (struct landlock_rule){.fd = c->lowers[i]};
		if (c->homes[i] >= 0)
			r->list[r->n++] = (struct landlock_rule){.fd = c->homes[i]};
	}
}

int contain_landlock(const struct contain *c, const struct cell_spec *s, int abi, struct err *e)
{
	struct rules r = {.n = 0};
	if (s->nested && s->strict)
		return err_set(e, ERR_DENIED, "min_isolation strict needs Landlock's file rules, which --nested does without");
	if (s->nested) // rules for files would forbid every mount, also those of a sandbox inside
		return abi >= LANDLOCK_SCOPES ? landlock_enter_scopes(abi, e) : 0;
	int rc = add_paths(&r, s, e);
	size_t own = r.n; // the walk directories stay open
	add_walked(&r, c);
	if (!rc)
		rc = landlock_enter(r.list, r.n, abi, e);
	for (size_t i = 0; i < own; i++)
		close(r.list[i].fd);
	return rc;
}
