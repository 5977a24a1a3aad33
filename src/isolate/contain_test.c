// SPDX-License-Identifier: Apache-2.0
// What the steps of contain.c must have made impossible is tried once, before any command runs.
#include "isolate/contain_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "isolate/caps.h"
#include "isolate/net.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// Of the user and the network namespace: what nobody inside has the rights to change. A mold does it once for its cells.
int contain_test_namespaces(const struct contain *c, bool nested, struct err *e)
{
	auto_buf struct buf most = BUF_INIT(32);
	if (net_self_test(c->gated, e))
		return -1;
	if (!nested && (fs_read(AT_FDCWD, "/proc/sys/user/max_user_namespaces", &most, e) || strcmp(buf_cstr(&most), "0\n")))
		return err_set(e, ERR_BUG, "self-test: a user namespace could be made");
	return 0;
}

int contain_test_settings(struct err *e)
{
	auto_fd int sysctl = open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC);
	return sysctl >= 0 ? err_set(e, ERR_BUG, "self-test: a kernel setting can be written") : 0;
}

int contain_test_self(uint64_t keep, struct err *e)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return err_set(e, ERR_BUG, "self-test: no_new_privs or seccomp is not in force");
	if (caps_verify(keep, e))
		return err_wrap(e, "self-test");
	// The filter hands unshare to the supervisor, which has no listener yet: what stands behind it is looked at instead,
	// and the filter is asked for a call that it answers itself. (Without it the kernel would say EINVAL.)
	if (!syscall(SYS_clone3, NULL, 0) || errno != ENOSYS)
		return err_set(e, ERR_BUG, "self-test: the system call filter does not answer");
	return 0;
}
