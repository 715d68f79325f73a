# Oracle values for the pooled signed-rank test, by listing all sign flips.
#
#   Rscript scripts/oracles/pooled.R > crates/results/stats/src/oracles/pooled.tsv
#
# One row a case: the runs' values ("/" between), the runs' noise, p, estimate, the
# intervals at 95 and 90 %. A run of n values with noise s weighs 1/((n + 1) s), here
# in whole numbers: the cases are chosen so that they come out even.
suppressWarnings(RNGversion("4.0.0"))
set.seed(20261122)
cat("# R", as.character(getRversion()), "enumeration; written by scripts/oracles/pooled.R\n")
num <- function(v) paste(formatC(v, digits = 17, format = "g", width = 1), collapse = " ")
walsh <- function(x) { w <- outer(x, x, "+") / 2; w[lower.tri(w, diag = TRUE)] }
case <- function(runs, noise, weights) {
  flips <- unlist(Map(function(x, w) w * seq_along(x), runs, weights))
  sums <- 0
  for (f in flips) sums <- c(sums, sums + f)
  seen <- sum(unlist(Map(function(x, w) w * sum(rank(abs(x))[x > 0]), runs, weights)))
  p <- min(1, 2 * mean(sums <= min(seen, sum(flips) - seen)))
  averages <- sort(unlist(Map(function(x, w) rep(walsh(x), w), runs, weights)))
  interval <- function(level) {
    # the largest k with P(W <= k) at most the tail
    k <- max(Filter(function(k) mean(sums <= k) <= (1 - level) / 2 + 1e-12, 0:(length(averages) %/% 2)))
    c(averages[k + 1], averages[length(averages) - k])
  }
  cat("pooled", paste(sapply(runs, function(x) paste(x, collapse = " ")), collapse = " / "),
      num(noise), num(p), num(median(averages)), num(interval(0.95)), num(interval(0.90)), "\n", sep = "\t")
}
draw <- function(n, s, m) round(rnorm(n, m, s), 6)
case(list(draw(5, 0.03, 0.02), draw(5, 0.03, 0.02)), c(1, 1), c(1, 1))
case(list(draw(7, 0.01, 0.02), draw(3, 0.01, 0.02)), c(1, 1), c(1, 2))
case(list(draw(5, 0.02, 0.01), draw(5, 0.04, 0.01)), c(0.02, 0.04), c(2, 1))
case(list(draw(7, 0.01, 0), draw(7, 0.05, 0.03)), c(0.01, 0.05), c(5, 1))
case(list(draw(3, 0.02, -0.04), draw(5, 0.02, -0.04), draw(5, 0.02, -0.04)), c(1, 1, 1), c(3, 2, 2))
case(list(draw(4, 0.02, -0.01), draw(4, 0.01, 0.02), draw(4, 0.04, 0)), c(0.02, 0.01, 0.04), c(2, 4, 1))
