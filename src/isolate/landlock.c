// SPDX-License-Identifier: Apache-2.0
#include "isolate/landlock.h"

#include "base/mem.h"
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Own names: the kernel's headers of the build machine may be older than the kernel we run on.
enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_ABI_1 = (1 << 13) - 1,
	FS_REFER = 1 << 13,	// ABI 2
	FS_TRUNCATE = 1 << 14,	// ABI 3
	FS_IOCTL_DEV = 1 << 15, // ABI 5
	FS_ON_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
	SCOPE_ABSTRACT_UNIX = 1 << 0, // ABI 6
	SCOPE_SIGNAL = 1 << 1,
};

// Longer than an old kernel's: it accepts that while the unknown part is zero.
struct ruleset {
	uint64_t fs, net, scoped;
};

int landlock_abi(void)
{
	long v = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return v < 0 ? 0 : (int)v;
}

static uint64_t handled(int abi)
{
	return FS_ABI_1 | FS_REFER | (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
}

static int add_rule(int ruleset, const struct landlock_rule *r, uint64_t all, struct err *e)
{
	struct stat st;
	if (fstat(r->fd, &st))
		return err_sys(e, "look at the target of a Landlock rule");
	uint64_t rights = r->write ? all & ~(uint64_t)FS_IOCTL_DEV : FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
	if (r->device)
		rights |= all & FS_IOCTL_DEV;
	if (!S_ISDIR(st.st_mode))
		rights &= FS_ON_FILES;
	struct landlock_path_beneath_attr a = {.allowed_access = rights, .parent_fd = r->fd};
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0))
		return err_sys(e, "add a Landlock rule");
	return 0;
}

static int restrict_self(int ruleset, struct err *e)
{
	if (syscall(SYS_landlock_restrict_self, ruleset, 0))
		return err_sys(e, "enter the Landlock rules");
	return 0;
}

static int create_ruleset(const struct ruleset *attr, struct err *e)
{
	int fd = (int)syscall(SYS_landlock_create_ruleset, attr, sizeof *attr, 0);
	return fd < 0 ? err_sys(e, "create the Landlock rules") : fd;
}

int landlock_enter(const struct landlock_rule *rules, size_t n, int abi, struct err *e)
{
	if (abi < LANDLOCK_MIN)
		return err_set(e, ERR_UNSUPPORTED, "Landlock ABI %d is too old, %d is needed", abi, LANDLOCK_MIN);
	struct ruleset attr = {
		.fs = handled(abi),
		.scoped = abi >= LANDLOCK_SCOPES ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0,
	};
	auto_fd int fd = create_ruleset(&attr, e);
	if (fd < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (add_rule(fd, &rules[i], attr.fs, e))
			return -1;
	return restrict_self(fd, e);
}

int landlock_enter_scopes(int abi, struct err *e)
{
	if (abi < LANDLOCK_SCOPES)
		return err_set(e, ERR_UNSUPPORTED, "Landlock ABI %d has no scopes, %d is needed", abi, LANDLOCK_SCOPES);
	auto_fd int fd = create_ruleset(&(struct ruleset){.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL}, e);
	return fd < 0 ? -1 : restrict_self(fd, e);
}
