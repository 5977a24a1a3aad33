// SPDX-License-Identifier: Apache-2.0
// The packet filter of a cell's network namespace: one table, one chain, always the same.
//
//   chain type filter hook prerouting, policy drop
//     ip daddr 127.0.0.0/8                     accept
//     ip6 daddr ::1                            accept
//     ip daddr 198.18.0.0/15 tcp               tproxy to 198.18.0.0:1, accept
//     ip tcp                                   tproxy to 198.18.0.0:2, accept
//     ip6 tcp                                  tproxy to [100::]:2, accept
//     limit rate 500/second                    log group 1
//     tcp                                      reject with tcp reset
//                                              reject with icmpx port-unreachable
//
// Every packet comes through here: all destinations are local, so each goes out on the loopback device and in again.
// In prerouting a refusal is an answer (reset, unreachable), as of a network; in output it would be EPERM.
// A tproxy rule whose listener does not listen is passed over. So whether an address may be dialled as it is needs no other
// rules: somebody outside lets the listeners at port 2 listen, or not.
// tproxy and not NAT: no connection is tracked, which makes the namespace cheaper to build, use and take down; and the
// accepted socket's own address is the one that was dialled.
#pragma once
#include "base/err.h"
#include <stdint.h>

#define NFT_LOG_GROUP 1
#define NFT_LOG_RATE 500 // packets a second that the supervisor is told of; it writes down fewer and counts the rest
#define NFT_SYNTHETIC 0xc6120000u // 198.18.0.0/15: what the resolver answers with
#define NFT_LISTEN_PORT 1 // the listener is at 198.18.0.0, which the resolver never gives: no port of 127/8 is taken
#define NFT_WIDE_PORT 2	  // there, for every other address; and for IPv6 at NFT_WIDE6
#define NFT_WIDE6 {{{1}}} // 100::, the first of a block that goes nowhere

// netfilter: a NETLINK_NETFILTER socket; afterwards it also receives the log group. UNSUPPORTED: this kernel has no
// nf_tables, tproxy or NFLOG for us.
int nft_install(int netfilter, struct err *e) MUST_USE;
