/* Lets the n-th open, read, write, fsync or rename below a folder fail, as a bad disk does.

   Preloaded into a process (LD_PRELOAD); `fault_arm` says what fails, `fault_count` how often each
   kind of call was made since. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, FSYNC, RENAME, KINDS };
enum { MOST_FILES = 65536 };

static char folder[4096];
static int failing = -1, error_number;
static long at, counts[KINDS];
static unsigned char below[MOST_FILES]; /* whether a descriptor is of a file in the folder */

void fault_arm(int kind, long number, int error, const char *path) {
  strncpy(folder, path, sizeof folder - 1);
  memset(counts, 0, sizeof counts);
  failing = kind, at = number, error_number = error;
}

long fault_count(int kind) { return counts[kind]; }

static int fails(int kind) {
  long number = __sync_add_and_fetch(&counts[kind], 1);
  if (kind != failing || number != at) return 0;
  errno = error_number;
  return 1;
}

static int inside(const char *path) {
  return folder[0] && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int known(int file) { return file >= 0 && file < MOST_FILES && below[file]; }

static int opened(int file, int is_inside) {
  if (file >= 0 && file < MOST_FILES) below[file] = (unsigned char)is_inside;
  return file;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENING(name)                                              \
  int name(const char *path, int flags, ...) {                     \
    va_list more;                                                  \
    va_start(more, flags);                                         \
    mode_t mode = va_arg(more, mode_t);                            \
    va_end(more);                                                  \
    if (inside(path) && fails(OPEN)) return -1;                    \
    return opened(REAL(name)(path, flags, mode), inside(path));    \
  }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name)                                                \
  int name(int base, const char *path, int flags, ...) {                \
    va_list more;                                                       \
    va_start(more, flags);                                              \
    mode_t mode = va_arg(more, mode_t);                                 \
    va_end(more);                                                       \
    if (inside(path) && fails(OPEN)) return -1;                         \
    return opened(REAL(name)(base, path, flags, mode), inside(path));   \
  }
OPENING_AT(openat)
OPENING_AT(openat64)

ssize_t read(int file, void *to, size_t size) {
  return known(file) && fails(READ) ? -1 : REAL(read)(file, to, size);
}
ssize_t pread(int file, void *to, size_t size, off_t begin) {
  return known(file) && fails(READ) ? -1 : REAL(pread)(file, to, size, begin);
}
ssize_t pread64(int file, void *to, size_t size, off64_t begin) {
  return known(file) && fails(READ) ? -1 : REAL(pread64)(file, to, size, begin);
}
ssize_t write(int file, const void *from, size_t size) {
  return known(file) && fails(WRITE) ? -1 : REAL(write)(file, from, size);
}
ssize_t pwrite(int file, const void *from, size_t size, off_t begin) {
  return known(file) && fails(WRITE) ? -1 : REAL(pwrite)(file, from, size, begin);
}
ssize_t pwrite64(int file, const void *from, size_t size, off64_t begin) {
  return known(file) && fails(WRITE) ? -1 : REAL(pwrite64)(file, from, size, begin);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
  return known(file) && fails(WRITE) ? -1 : REAL(writev)(file, parts, count);
}
int ftruncate(int file, off_t size) {
  return known(file) && fails(WRITE) ? -1 : REAL(ftruncate)(file, size);
}
int ftruncate64(int file, off64_t size) {
  return known(file) && fails(WRITE) ? -1 : REAL(ftruncate64)(file, size);
}
int fsync(int file) { return known(file) && fails(FSYNC) ? -1 : REAL(fsync)(file); }
int rename(const char *from, const char *to) {
  return inside(to) && fails(RENAME) ? -1 : REAL(rename)(from, to);
}
int link(const char *from, const char *to) {
  return inside(to) && fails(RENAME) ? -1 : REAL(link)(from, to);
}
