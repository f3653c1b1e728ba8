// Applies the stored colour scheme before the first paint.
(() => {
  try {
    const theme = localStorage.getItem('orchestra.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage the scheme of the system applies.
  }
})();
