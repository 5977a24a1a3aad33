// SPDX-License-Identifier: Apache-2.0
// The journal of the service: SKEP_HOME/service, in the form of a sandbox's. It has two ages at most, so that nobody who is
// refused often enough fills the disk.
#include "engine/engine_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define AGE_BYTES (32ULL << 20)

static int open_dir(struct engine *g, bool make, struct err *e)
{
	if (make && mkdirat(g->home_fd, "service", 0700) && errno != EEXIST)
		return err_sys(e, "make service");
	return fs_open(g->home_fd, "service", O_RDONLY | O_DIRECTORY, 0, e);
}

// The old age goes, this one becomes it; the new one begins with where it ended.
static int begin_anew(struct engine *g, struct journal *j, struct err *e)
{
	auto_free char *body = xasprintf("\"before\":\"service.old\",\"seq\":%llu,\"hash\":\"%s\"", (unsigned long long)j->seq, j->head);
	journal_close(j);
	if (fs_exists(g->home_fd, "service.old") && fs_remove_tree(g->home_fd, "service.old", e))
		return -1;
	if (renameat(g->home_fd, "service", g->home_fd, "service.old"))
		return err_sys(e, "keep the journal of the service");
	auto_fd int dir = open_dir(g, true, e);
	return dir < 0 || journal_open(j, dir, e) ? -1 : journal_append(j, "journal.begun", "skepd", body, false, e);
}

static int append(struct engine *g, const char *type, const char *body, struct err *e)
{
	struct journal j = {0};
	auto_fd int dir = open_dir(g, true, e);
	if (dir < 0 || journal_open(&j, dir, e))
		return -1;
	int rc = j.bytes > AGE_BYTES ? begin_anew(g, &j, e) : 0;
	if (!rc)
		rc = journal_append(&j, type, *g->actor.name ? g->actor.name : "skepd", body, false, e);
	journal_close(&j);
	sync_journal(g, "service");
	return rc;
}

void engine_service_record(struct engine *g, const char *type, const char *body)
{
	struct err e;
	if (append(g, type, body, &e))
		log_line(LOG_ERROR, "event %s lost: %s", type, e.msg);
}

int engine_service_journal(struct engine *g, uint64_t offset, struct buf *out, uint64_t *out_end, struct err *e)
{
	auto_fd int dir = open_dir(g, false, e);
	if (dir >= 0)
		return journal_tail(dir, offset, out, out_end, e);
	if (e->sys != ENOENT)
		return -1;
	*out_end = 0; // nothing happened yet
	return offset ? err_set(e, ERR_INVALID, "the journal ends before offset %llu", (unsigned long long)offset) : 0;
}

int engine_service_verify(struct engine *g, struct journal_report *out, struct err *e)
{
	auto_fd int dir = open_dir(g, false, e);
	if (dir >= 0)
		return journal_verify(dir, 0, NULL, out, e);
	if (e->sys != ENOENT)
		return -1;
	*out = (struct journal_report){.ok = true};
	return 0;
}
