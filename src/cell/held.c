// SPDX-License-Identifier: Apache-2.0
#include "cell/held.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>

struct look {
	char name[64], state;
};

static bool look_at(pid_t pid, struct look *out)
{
	char path[32];
	struct err e;
	auto_buf struct buf b = BUF_INIT(4096);
	if (fmt_to(path, sizeof path, "/proc/%d/stat", (int)pid) || fs_read(AT_FDCWD, path, &b, &e))
		return false;
	const char *name = strchr(buf_cstr(&b), '('), *end = strrchr(buf_cstr(&b), ')');
	if (!name || !end || end < name || !end[1] || (size_t)(end - name) >= sizeof out->name)
		return false;
	*out = (struct look){.state = end[2]};
	memcpy(out->name, name, (size_t)(end - name));
	return true;
}

// Until it executes it has pid 1's name, which no command has. While its parent waits nobody buries it: the number stays its own.
static bool end_if_held(const struct look *init, pid_t child)
{
	struct look l;
	return look_at(child, &l) && strchr("Tt", l.state) && !strcmp(l.name, init->name) && !kill(child, SIGKILL);
}

bool held_release(pid_t init)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct err e;
	struct str one;
	uint64_t child;
	struct look l;
	if (!look_at(init, &l) || l.state != 'D')
		return false;
	auto_free char *path = xasprintf("/proc/%d/task/%d/children", (int)init, (int)init);
	if (fs_read(AT_FDCWD, path, &b, &e))
		return false;
	struct str rest = str_of(buf_cstr(&b));
	while (str_next(&rest, ' ', &one))
		if (!str_to_u64(one, 1, INT32_MAX, &child) && end_if_held(&l, (pid_t)child))
			return true;
	return false;
}
