"""What a step on many ranks takes on paper: the formula of docs/dist.md. Usage: model.py"""


def bucket_seconds(nbytes, ranks, rate, latency):
    """A ring: reduce-scatter and all-gather."""
    return 2 * (ranks - 1) / ranks * nbytes / rate + 2 * (ranks - 1) * latency


def step_seconds(gradient_bytes, bucket_bytes, ranks, backward, rate, latency):
    """Backward and what is left of the reduction after it, with buckets ready at even distances."""
    count = max(1, round(gradient_bytes / bucket_bytes))
    free_at = 0.0
    for bucket in range(count):
        ready = backward * (bucket + 1) / count
        free_at = max(free_at, ready) + bucket_seconds(gradient_bytes / count, ranks, rate, latency)
    return free_at + 2 * (ranks - 1) * latency


def after_seconds(gradient_bytes, ranks, backward, rate, latency):
    return backward + bucket_seconds(gradient_bytes, ranks, rate, latency)


def main():
    gradient_bytes, backward, rate, latency = 100e6, 1.0, 125e6, 1e-4
    print("| ranks | 1 MB buckets | 4 MB | 25 MB | after backward | state a rank, Adam |")
    print("|---|---|---|---|---|---|")
    for ranks in (2, 8, 64, 1024):
        cells = [f"{step_seconds(gradient_bytes, size, ranks, backward, rate, latency):.2f} s" for size in (1e6, 4e6, 25e6)]
        print(f"| {ranks} | {' | '.join(cells)} | {after_seconds(gradient_bytes, ranks, backward, rate, latency):.2f} s "
              f"| {2 * gradient_bytes / ranks / 1e6:.1f} MB |")


if __name__ == "__main__":
    main()
