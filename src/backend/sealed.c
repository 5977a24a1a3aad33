// SPDX-License-Identifier: Apache-2.0
// Secret values on their way to a gate: a memory file that can be passed on but never changed.
#include "backend/native_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include <fcntl.h>
#include <sys/mman.h>

int sealed_memory(const struct buf *b, struct err *e)
{
	auto_fd int fd = memfd_create("skep-secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_sys(e, "memory for secrets");
	if (fs_write_all(fd, b->p, b->n, e))
		return -1;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		return err_sys(e, "seal the memory for secrets");
	return take_fd(&fd);
}
