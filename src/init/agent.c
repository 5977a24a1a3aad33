// SPDX-License-Identifier: Apache-2.0
#include "init/agent.h"

#include "base/mem.h"
#include "model/msg.h"
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

// Made as the cell's user in a directory that is anybody's: what stands in the way is the cell's own. Every user in the
// cell may connect; among them there is no boundary.
static int listener(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = AGENT_SOCKET};
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(AGENT_SOCKET);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || chmod(AGENT_SOCKET, 0666) || listen(fd, BACKLOG))
		return -1;
	return take_fd(&fd);
}

void agent_answer(struct chan *c, const struct frame *f)
{
	auto_fd int fd = listener();
	if (fd < 0)
		chan_send(c, M_AGENT, 0, f->id, NULL, 0);
	else
		chan_send_fd(c, M_AGENT, f->id, NULL, 0, fd);
}
