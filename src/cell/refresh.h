// SPDX-License-Identifier: Apache-2.0
// A live cell sees the files of today. An overlay asks the directory below once about a name and keeps the answer: a file that
// the host replaces by rename stays the old one, and a name that was absent stays absent. Before a command starts the cell's
// overlays forget what no process of the cell holds. Not more often than once a second: what is forgotten is read again.
#pragma once

struct cell;
struct frame;

void refresh_overlays(struct cell *c);
void refresh_root(struct cell *c, struct frame *f); // I M_ROOT: takes the descriptor
