// SPDX-License-Identifier: Apache-2.0
// Extended attributes, ACLs among them, go from a file of the host to the one that takes its place: a file that is replaced
// is another inode. They stand in the intent log, so that an undo of a deletion brings them back.
#include "workspace/review_txn.h"

#include "base/mem.h"
#include <string.h>
#include <sys/xattr.h>

#define LIST_MAX (64u << 10)
#define VALUE_MAX (64u << 10)

// The kernel labels and measures by itself.
static bool is_kernels_own(const char *name)
{
	static const char *const own[] = {"security.selinux", "security.SMACK64", "security.apparmor", "security.ima", "security.evm"};
	for (size_t i = 0; i < countof(own); i++)
		if (!strcmp(name, own[i]))
			return true;
	return false;
}

void attrs_read(int fd, struct buf *out)
{
	auto_free char *list = xcalloc(1, LIST_MAX), *value = xcalloc(1, VALUE_MAX);
	ssize_t n = flistxattr(fd, list, LIST_MAX);
	for (const char *name = list; n > 0 && name < list + n; name += strlen(name) + 1) {
		ssize_t size = is_kernels_own(name) ? -1 : fgetxattr(fd, name, value, VALUE_MAX);
		if (size < 0)
			continue;
		wire_str(out, name);
		wire_bytes(out, value, (size_t)size);
	}
}

void attrs_write(int fd, const char *p, size_t n)
{
	struct wire w = {.p = (const uint8_t *)p, .n = n};
	while (w.n && !w.bad) {
		size_t size;
		auto_free char *name = wire_get_str(&w);
		const uint8_t *value = wire_get_bytes(&w, &size);
		if (!w.bad && name)
			(void)!fsetxattr(fd, name, value, size, 0); // a right or a file system that is missing stops no apply
	}
}
