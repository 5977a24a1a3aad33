// SPDX-License-Identifier: Apache-2.0
#include "init/users.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (4u << 20)
#define FIELDS 7

// As long as it says it is: files of /proc say 0.
static bool read_list(const char *path, struct buf *out)
{
	struct err e;
	struct stat st;
	auto_fd int fd = fs_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, &e);
	return fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size && st.st_size <= FILE_MAX && !fs_read_fd(fd, out, &e);
}

// The fields of the line; how many there are.
static size_t split(struct str line, struct str field[FIELDS])
{
	size_t n = 0;
	while (n < FIELDS && str_next(&line, ':', &field[n]))
		n++;
	return n;
}

static bool read_user(struct str line, struct user *out)
{
	struct str f[FIELDS];
	uint64_t uid, gid;
	if (split(line, f) < 6 || !f[0].n || str_to_u64(f[2], 0, UINT32_MAX - 1, &uid) || str_to_u64(f[3], 0, UINT32_MAX - 1, &gid))
		return false;
	*out = (struct user){xstrndup(f[0].p, f[0].n), xstrndup(f[5].p, f[5].n), (uint32_t)uid, (uint32_t)gid};
	return true;
}

static bool find(const char *name, uint32_t uid, struct user *out)
{
	auto_buf struct buf b = BUF_INIT(FILE_MAX + 1);
	if (!read_list("/etc/passwd", &b))
		return false;
	struct str rest = str_of(buf_cstr(&b)), line;
	while (str_next(&rest, '\n', &line)) {
		struct user u;
		if (!read_user(line, &u))
			continue;
		if (name ? !strcmp(u.name, name) : u.uid == uid) {
			*out = u;
			return true;
		}
		user_done(&u);
	}
	return false;
}

bool users_find(const char *name, struct user *out)
{
	return find(name, 0, out);
}

bool users_find_uid(uint32_t uid, struct user *out)
{
	return find(NULL, uid, out);
}

void user_done(struct user *u)
{
	free(u->name);
	free(u->home);
	*u = (struct user){0};
}

char *users_group(uint32_t gid)
{
	auto_buf struct buf b = BUF_INIT(FILE_MAX + 1);
	if (!read_list("/etc/group", &b))
		return NULL;
	struct str rest = str_of(buf_cstr(&b)), line, f[FIELDS];
	uint64_t id;
	while (str_next(&rest, '\n', &line))
		if (split(line, f) >= 3 && f[0].n && !str_to_u64(f[2], 0, UINT32_MAX - 1, &id) && id == gid)
			return xstrndup(f[0].p, f[0].n);
	return NULL;
}
