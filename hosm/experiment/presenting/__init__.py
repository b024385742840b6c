"""What tables, figures and claims share: number formats, style, the judge of claims."""
