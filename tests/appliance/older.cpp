// SPDX-License-Identifier: Apache-2.0
// What the compiler's C++ library wants of a C library newer than the machine's: see `c++` next to this file.
#include <unistd.h>

extern "C" {
// False: it may not leave locks out.
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

unsigned arc4random() {
    unsigned value = 0;
    if (getentropy(&value, sizeof value) != 0) __builtin_trap();
    return value;
}
}
