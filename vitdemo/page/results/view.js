// The chosen model and the model to compare with. Before there was one menu, each section had its own.
{
  const FORMER = { "results.model": ["metrics.model", "confusion.model", "errors.model", "calibration.model"], "results.other": ["metrics.other", "confusion.other"] };
  for (const [name, former] of Object.entries(FORMER)) for (const old of former) vitdemo.store.renameParam(old, name);
  vitdemo.store.follow("results.model", "model");
}
