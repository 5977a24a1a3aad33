// SPDX-License-Identifier: Apache-2.0
#include "cell/rights.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "isolate/userns.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

// "real effective saved fs", of which the last counts for files.
static int fs_id(struct str line, uint32_t *out)
{
	struct str part = {0};
	uint64_t id;
	for (int i = 0; i < 4; i++)
		if (!str_next(&line, '\t', &part))
			return -1;
	if (str_to_u64(part, 0, UINT32_MAX, &id))
		return -1;
	*out = (uint32_t)id;
	return 0;
}

static int group_list(struct str line, struct rights *out)
{
	struct str part;
	while (str_next(&line, ' ', &part)) {
		uint64_t id;
		if (!part.n)
			continue;
		if (out->n_groups == RIGHTS_GROUPS || str_to_u64(part, 0, UINT32_MAX, &id))
			return -1;
		out->groups[out->n_groups++] = (uint32_t)id;
	}
	return 0;
}

static int hex(struct str line, uint64_t *out)
{
	uint64_t v = 0;
	for (size_t i = 0; i < line.n; i++) {
		const char *digits = "0123456789abcdef", *at = strchr(digits, line.p[i]);
		if (!at || i >= 16)
			return -1;
		v = v << 4 | (uint64_t)(at - digits);
	}
	*out = v;
	return line.n ? 0 : -1;
}

int rights_parse(const char *status, struct rights *out)
{
	struct str rest = str_of(status), line, key;
	int found = 0;
	*out = (struct rights){0};
	while (str_next(&rest, '\n', &line)) {
		if (!str_next(&line, ':', &key))
			continue;
		struct str value = {line.p + (line.n > 0), line.n - (line.n > 0)};
		int rc = str_is(key, "Uid")	 ? fs_id(value, &out->uid)
			 : str_is(key, "Gid")	 ? fs_id(value, &out->gid)
			 : str_is(key, "Groups") ? group_list(value, out)
			 : str_is(key, "CapEff") ? hex(value, &out->caps)
						 : 1;
		if (rc < 0)
			return -1;
		found += !rc;
	}
	return found == 4 ? 0 : -1;
}

static bool same_userns(pid_t a, pid_t b)
{
	char path[2][64], ns[2][64];
	ssize_t n[2];
	for (int i = 0; i < 2; i++) {
		if (fmt_to(path[i], sizeof path[i], "/proc/%d/ns/user", (int)(i ? a : b)))
			return false;
		n[i] = readlink(path[i], ns[i], sizeof ns[i]);
	}
	return n[0] > 0 && n[0] == n[1] && !memcmp(ns[0], ns[1], (size_t)n[0]);
}

int rights_find(const struct cell *c, pid_t pid, struct rights *out)
{
	char path[64];
	struct err e;
	auto_buf struct buf b = BUF_INIT(16 << 10);
	const struct userns_host *h = &c->nursery->ids;
	if (fmt_to(path, sizeof path, "/proc/%d/status", (int)pid) || fs_read(AT_FDCWD, path, &b, &e) ||
	    rights_parse(buf_cstr(&b), out))
		return -1;
	if (userns_inside(h, c->first_id, &out->uid) || userns_inside(h, c->first_id, &out->gid))
		return -1;
	for (uint32_t i = 0; i < out->n_groups; i++)
		if (userns_inside(h, c->first_id, &out->groups[i]))
			return -1;
	// Capabilities over a namespace of its own are none over the cell. (Rootless pid 1's can not be looked at.)
	if (c->spec.nested && !same_userns(pid, c->init_pid))
		out->caps = 0;
	return 0;
}
