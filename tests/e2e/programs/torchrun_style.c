// A program that knows nothing of Lockstep. It reads what torchrun sets (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT),
// and gathers one number per rank over TCP, STEPS times. It fails like any other when a peer goes away. Usage:
// torchrun_style STEPS MILLISECONDS_PER_STEP
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int need(const char* name) {
  return getenv(name) ? atoi(getenv(name)) : (fprintf(stderr, "%s is not set\n", name), exit(2), 0);
}
static void all(int fd, void* data, size_t size, int receive) {
  for (char* at = data; size > 0;) {
    const ssize_t n = receive ? recv(fd, at, size, 0) : send(fd, at, size, MSG_NOSIGNAL);
    if (n <= 0) {
      fprintf(stderr, "rank %d lost a peer\n", need("RANK"));
      exit(1);
    }
    at += n;
    size -= (size_t)n;
  }
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 1, pause_ms = argc > 2 ? atoi(argv[2]) : 0, rank = need("RANK"),
            world = need("WORLD_SIZE");
  int peers[1024], values[1024], one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)need("MASTER_PORT"))};
  inet_pton(AF_INET, getenv("MASTER_ADDR"), &address.sin_addr);
  if (rank == 0) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr*)&address, sizeof address) || listen(fd, world)) return perror("MASTER_PORT"), 3;
    for (int i = 1; i < world; ++i) {
      const int peer = accept(fd, NULL, NULL);
      int who = 0;
      all(peer, &who, sizeof who, 1);
      peers[who] = peer;
    }
  } else {
    for (int tries = 0; connect(fd, (struct sockaddr*)&address, sizeof address); ++tries) {
      if (tries == 300) return perror("rank 0"), 4;
      close(fd), usleep(50000), fd = socket(AF_INET, SOCK_STREAM, 0);
    }
    all(fd, (void*)&rank, sizeof rank, 0);
  }
  for (int step = 0; step < steps; ++step, usleep((unsigned)pause_ms * 1000)) {
    values[rank] = rank * 1000 + step;
    if (rank != 0) all(fd, &values[rank], sizeof(int), 0), all(fd, values, sizeof(int) * (size_t)world, 1);
    for (int i = 1; rank == 0 && i < world; ++i) all(peers[i], &values[i], sizeof(int), 1);
    for (int i = 1; rank == 0 && i < world; ++i) all(peers[i], values, sizeof(int) * (size_t)world, 0);
    for (int i = 0; i < world; ++i)
      if (values[i] != i * 1000 + step) return fprintf(stderr, "step %d: rank %d sent %d\n", step, i, values[i]), 5;
  }
  return printf("rank %d of %d gathered %d steps\n", rank, world, steps), 0;
}
