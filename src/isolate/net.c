// SPDX-License-Identifier: Apache-2.0
#include "isolate/net.h"

#include "base/mem.h"
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int net_lo_up(struct err *e)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "socket for the loopback device");
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING};
	return ioctl(fd, SIOCSIFFLAGS, &r) ? err_sys(e, "bring the loopback device up") : 0;
}
