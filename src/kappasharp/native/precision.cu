// K's inverse and the Hessian of the negative log-posterior, one thread block a run: correction/strength.py.
KERNEL precision(const double* K, const int* pairs, const double* omega, double* H, double* own, int* usable, int n, int m) {
    SHARED(memory);
    const long long at = block_index();
    Matrices M;
    M.m = n;
    double *pivots = M.place(memory), *spare = pivots + n;
    H += at * n * n, own += at * n;
    take_up(M, K + at * n * n);
    sweep(M, pivots, spare);
    // Where K is not positive definite the identity stands in.
    bool positive = true;
    for (int i = 0; i < n; i++) positive = positive && pivots[i] > 0.0 && pivots[i] < INFINITE;
    for (int i = thread_index(); i < n; i += thread_count()) {
        for (int j = 0; j < n; j++) H[i * n + j] = positive ? -either_b(M, i, j) : i == j ? 1.0 : 0.0;
        own[i] = H[i * n + i];
    }
    sync_block();
    // Every thread has designs of its own: no entry is added to by two.
    for (int p = 0; p < m; p++) {
        const int winner = pairs[(at * m + p) * 2], loser = pairs[(at * m + p) * 2 + 1];
        const double weight = omega[at * m + p];
        if (winner % thread_count() == thread_index()) H[winner * n + winner] += weight, H[winner * n + loser] -= weight;
        if (loser % thread_count() == thread_index()) H[loser * n + loser] += weight, H[loser * n + winner] -= weight;
    }
    if (thread_index() == 0) usable[at] = positive;
}
