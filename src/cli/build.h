// SPDX-License-Identifier: Apache-2.0
// Whether skepd is of the build this program belongs to: one that was started before an update still runs the old one.
#pragma once
#include <sys/types.h>

// The process of the local skepd on the other end of fd, when it runs another file than the skepd this program would start. 0: the
// same, or that can not be told.
pid_t build_of_other(int fd);
